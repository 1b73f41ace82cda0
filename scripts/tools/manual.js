/* The search of manual.html: entries that have all the words, those with them in the name first. */
const field = document.getElementById("search"), found = document.getElementById("found");
const entries = [...document.querySelectorAll("main section")].map((e) => {
  const name = e.querySelector("h3").textContent;
  return {id: e.id, name: name.replace(/[ ({\u2192].*$/s, ""), head: name.toLowerCase(),
          all: e.textContent.toLowerCase()};
});

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter((w) => w !== "");
  const has = (s) => words.every((w) => s.includes(w));
  const hits = words.length === 0 ? [] : entries.filter((e) => has(e.all));
  hits.sort((a, b) => has(b.head) - has(a.head));
  found.replaceChildren(...hits.slice(0, 40).map((e) => {
    const line = document.createElement("li"), link = document.createElement("a");
    link.href = "#" + e.id;
    link.textContent = e.name;
    line.append(link);
    return line;
  }));
  if (words.length > 0 && hits.length === 0) found.textContent = "nothing has these words";
}

field.addEventListener("input", search);
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && document.activeElement !== field) {
    e.preventDefault();
    field.focus();
  }
});
