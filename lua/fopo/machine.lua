-- The machine: fopo.time, memory, threads, isa, device, ranks, network.
local native = require "fopo.native"
local define = require "fopo.base.define"
local text = require "fopo.base.text"
local machine = {}

define.doc{name = "fopo.clock", signature = "fopo.clock()", returns = "number",
  text = "Seconds of a monotonic clock.", example = "assert(fopo.clock() <= fopo.clock())"}

machine.time = define.fn{
  name = "fopo.time", returns = "...",
  signature = "fopo.time(f, ...)",
  args = {{"f", "function", nil, "what is called, with the arguments after it"}},
  variadic = true,
  text = "Calls f, prints how long that took by the clock and in CPU time, of all threads, "
         .. "and returns what f returned. On a machine with other work, compare CPU times.",
  example = "assert(fopo.time(math.max, 3, 7) == 7)",
  call = function(f, ...)
    local wall, cpu = native.clock(), os.clock()
    local values = table.pack(f(...))
    print(("%s, %s of CPU"):format(text.seconds(native.clock() - wall),
                                   text.seconds(os.clock() - cpu)))
    return table.unpack(values, 1, values.n)
  end,
}

machine.memory = define.fn{
  name = "fopo.memory", returns = "table",
  text = "blocks, bytes and peak of the memory that C holds, and what is available, in bytes.",
  example = "assert(fopo.memory().peak >= 0)",
  call = native.memory,
}

machine.threads = define.fn{
  name = "fopo.threads", returns = "integer",
  args = {{"n", "integer", nil, "threads to use from now on", optional = true, min = 1}},
  text = "CPU threads in use. Results have the same bits for any number (FOPO_THREADS at start).",
  example = "n = fopo.threads()\nfopo.threads(1)\nfopo.threads(n)",
  call = native.threads,
}

machine.isa = define.fn{
  name = "fopo.isa", returns = "string, string",
  args = {{"name", "string", nil, "the set to use from now on: " .. native.isa_names(),
           optional = true}},
  text = [[The instruction set in use; and why, if it is not the one that FOPO_ISA asks for at
start. A set that this CPU lacks is an error, which lists those that it has.]],
  example = "name, why = fopo.isa()",
  call = native.isa,
}

-- The kind that device = "auto" takes is found by opening it; the device is opened once and kept.
machine.device = define.fn{
  name = "fopo.device", returns = "table",
  text = [[What steps can run on: cpu, the processor; cards, a list of the GPUs that device = "cuda"
could use (the first is taken; CUDA_VISIBLE_DEVICES chooses), or an empty one and in why the reason;
auto, the kind that device = "auto" takes. FOPO_CUDA=none switches CUDA off.]],
  example = [[d = fopo.device()
assert(d.auto == "cpu" and d.why or #d.cards > 0)]],
  call = function()
    local found, why = native.device_cards()
    local cards = {}
    for line in (found or ""):gmatch("[^\n]+") do cards[#cards + 1] = line end
    return {cpu = native.device("cpu").name, cards = cards, why = why,
            auto = native.device("auto").kind}
  end,
}

machine.ranks = define.fn{
  name = "fopo.ranks", returns = "table",
  text = [[The processes that work together: rank (0 .. size - 1, as MPI counts) and size; host
and on_host, how many of them share this host; hosts, a list; by, "alone" or the MPI in use; and
what this rank has done with the others so far: calls, bytes given, the messages that these take at
least, and seconds, waiting included, of which cpu_seconds are the processor's.
Alone it is rank 0 of 1. Several are started by mpirun -n 4 fopo script.lua, or in a job of Slurm by
srun --mpi=pmix (scripts/examples/ranks.lua and ranks.slurm); docs/ranks.md says more, and what
each holds and sends. fopo.shard deals a catalogue out, so that none holds all of it.
Every one runs the whole script, so the script must make the same calls on each: no branch on the
rank or a clock may leave out a t:run or an evaluation. print writes on rank 0 alone, io.write on
all.
Training: t:run splits the work on each batch, and all ranks come to the bits of one process. Rank 0
shows the run, writes its log and its checkpoints, and decides what depends on time; any number of
ranks resumes a checkpoint. An error or the death of one rank ends all.
Threads: the ranks of a host share its cores (FOPO_THREADS sets how many each has); mpirun -n 2
binds each to one core unless it is told --bind-to none.
The prompt is for one process: try a script there, then run it on several.]],
  example = [[r = fopo.ranks()
assert(r.rank < r.size and r.hosts[r.rank + 1] == r.host)]],
  call = native.ranks_about,
}

local function spread(seconds)
  table.sort(seconds)
  local n = #seconds
  return {median = seconds[(n + 1) // 2], most = seconds[n], p99 = seconds[math.ceil(0.99 * n)],
          least = seconds[1], all = seconds}
end

machine.network = define.fn{
  name = "fopo.network", returns = "table",
  options = {
    {"n", "integer", 1000, "how often", min = 1, max = 1000000},
    {"bytes", "integer", 4096, "that each rank sends to each", min = 1, max = 1 << 24},
  },
  text = [[Measures the collective operations of the ranks (fopo.ranks), in seconds: agree, of 8
bytes; exchange, of bytes from each rank to each; gather, of bytes from each to all. Each has least,
median, p99, most, and all, sorted. A step has 3 agreements and 2 of the others over items that are
dealt out, 2 and 1 otherwise, so the medians say what it waits at least. Every rank must call it.]],
  example = [[n = fopo.network{n = 10}
assert(#n.agree.all == 10 and n.gather.median <= n.gather.most)]],
  call = function(o)
    local agree, exchange, gather = native.network(o.n, o.bytes)
    return {ranks = select(2, native.ranks()), bytes = o.bytes, agree = spread(agree),
            exchange = spread(exchange), gather = spread(gather)}
  end,
}

return machine
