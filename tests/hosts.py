"""Several hosts on one machine: network namespaces with a name of their own, joined by a bridge or
by a slow link, a program that carries packets between them with delay and loss (for kernels without
tc netem). mpirun reaches them through an agent that enters the namespace, in the place of ssh."""
import ctypes
import fcntl
import heapq
import os
import random
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time


def missing():
    """What this machine lacks for it; None: nothing."""
    if os.geteuid() != 0:
        return "it needs root"
    for tool in ("ip", "unshare", "nsenter", "mpirun"):
        if not shutil.which(tool):
            return f"there is no {tool}"
    name = f"fopo{os.getpid()}try"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None if made.returncode == 0 else "namespaces cannot be made: " + made.stderr.strip()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class Hosts:
    """n hosts, host1 ... Delay (seconds, one way) and loss (a share of the packets) ask for the
    slow link. rate: what each host sends at most, as tc writes it (10gbit). full: host -> (folder,
    bytes) of a small disk of its own there."""

    def __init__(self, n, delay=None, loss=0.0, full=None, rate=None):
        self.n, self.full = n, full or {}
        self.folder = tempfile.mkdtemp()
        self.stem = f"fopo{os.getpid()}"
        self.link = None
        for i in range(1, n + 1):
            ip("netns", "add", self.space(i))
            ip("-n", self.space(i), "link", "set", "lo", "up")
        if delay is None:
            self.join()
        else:
            self.link = subprocess.Popen([sys.executable, os.path.abspath(__file__), str(delay),
                                          str(loss), *(self.space(i) for i in range(1, n + 1))],
                                         stdout=subprocess.PIPE, text=True)
            self.link.stdout.readline()
        for i in range(1, n + 1):
            ip("-n", self.space(i), "addr", "add", f"10.77.0.{i}/24", "dev", "eth0")
            ip("-n", self.space(i), "link", "set", "eth0", "up")
            if rate:
                ip("netns", "exec", self.space(i), "tc", "qdisc", "add", "dev", "eth0", "root",
                   "tbf", "rate", rate, "burst", "1mb", "latency", "100ms")
        self.write_agent()

    def space(self, i):
        return f"{self.stem}h{i}"

    def join(self):
        switch = self.space(0)
        ip("netns", "add", switch)
        ip("-n", switch, "link", "add", "name", "br0", "type", "bridge")
        ip("-n", switch, "link", "set", "br0", "up")
        for i in range(1, self.n + 1):
            ip("-n", switch, "link", "add", f"port{i}", "type", "veth", "peer", "name", "eth0",
               "netns", self.space(i))
            ip("-n", switch, "link", "set", f"port{i}", "master", "br0", "up")

    def cut(self, i):
        """Packets from and to the host are lost from now on, and nobody is told."""
        ip("-n", self.space(0), "link", "set", f"port{i}", "nomaster")

    def enter(self, i, command):
        """The words that run a shell's command on host i."""
        disk = ""
        if i in self.full:
            disk = "mount -t tmpfs -o size=%d none '%s'; cd '%s'; " % (
                self.full[i][1], os.path.abspath(self.full[i][0]), os.getcwd())
        return ["ip", "netns", "exec", self.space(i), "unshare", "--uts", "--mount", "sh", "-c",
                f"hostname host{i}; {disk}{command}"]

    def write_agent(self):
        self.agent = os.path.join(self.folder, "agent")
        with open(self.agent, "w") as f:
            f.write("#!/bin/sh\nhost=${1##*.}; shift\ncase $host in\n")
            for i in range(1, self.n + 1):
                words = self.enter(i, "")
                # mpirun has the mounts of host1, and starts this
                f.write(f"{i}) exec nsenter -t {os.getpid()} -m {' '.join(words[:-1])} "
                        f"\"{words[-1]}$*\" ;;\n")
            f.write("esac\n")
        os.chmod(self.agent, 0o755)

    def start(self, *command, ranks=None, more=(), env=None):
        """The command on one rank of each of the first hosts; mpirun is on host1."""
        hosts = ",".join(f"10.77.0.{i}:1" for i in range(1, (ranks or self.n) + 1))
        mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--mca", "plm_rsh_agent",
                  self.agent, "--mca", "mpi_yield_when_idle", "1", *more, "--host", hosts, *command]
        return subprocess.Popen(self.enter(1, 'exec "$@"') + ["sh", *mpirun], text=True, env=env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def processes(self, i):
        out = subprocess.run(["ip", "netns", "pids", self.space(i)], capture_output=True, text=True)
        return [int(p) for p in out.stdout.split()]

    def kill(self, i):
        for pid in self.processes(i):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def sent(self, i):
        """Packets and bytes that host i has sent so far."""
        return [int(subprocess.run(["ip", "netns", "exec", self.space(i), "cat",
                                    "/sys/class/net/eth0/statistics/tx_" + what],
                                   capture_output=True, text=True).stdout)
                for what in ("packets", "bytes")]

    def close(self):
        for i in range(1, self.n + 1):
            self.kill(i)
        if self.link:
            self.link.kill()
            self.link.communicate()
        for i in range(0 if not self.link else 1, self.n + 1):
            subprocess.run(["ip", "netns", "del", self.space(i)], capture_output=True)
        shutil.rmtree(self.folder)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        self.close()


# ---- the slow link ----

def open_tunnel(space):
    """The device eth0 of the namespace, whose packets this process carries."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    with open("/proc/self/ns/net") as own, open("/run/netns/" + space) as other:
        if setns(other.fileno(), 0) != 0:
            raise OSError(ctypes.get_errno(), "setns")
        tunnel = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        IFF_TUN, IFF_NO_PI, TUNSETIFF = 1, 0x1000, 0x400454CA
        fcntl.ioctl(tunnel, TUNSETIFF, struct.pack("16sH22x", b"eth0", IFF_TUN | IFF_NO_PI))
        setns(own.fileno(), 0)
    return tunnel


def carry(delay, loss, spaces):
    tunnels = [open_tunnel(space) for space in spaces]
    os.nice(-20)  # it is the network: ranks that wait, by asking again and again, come after it
    chance, waiting, n = random.Random(1), [], 0
    print("ready", flush=True)
    while True:
        left = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select(tunnels, [], [], left)
        now = time.monotonic()
        for tunnel in ready:
            packet = os.read(tunnel, 65536)
            to = packet[19] - 1 if packet[0] >> 4 == 4 and len(packet) >= 20 else -1
            if 0 <= to < len(tunnels) and chance.random() >= loss:
                n += 1
                heapq.heappush(waiting, (now + delay, n, to, packet))
        while waiting and waiting[0][0] <= now:
            _, _, to, packet = heapq.heappop(waiting)
            os.write(tunnels[to], packet)


if __name__ == "__main__":
    carry(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:])
