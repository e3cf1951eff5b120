"use strict";
(() => {
  const { axes, cells, failing, shown } = JSON.parse(document.getElementById("data").textContent);
  const names = Object.keys(axes);
  const at = (id) => document.getElementById(id);
  const made = (tag, text, set = {}) => Object.assign(document.createElement(tag), { textContent: text }, set);
  let wanted = {};
  const MOST = 200;

  function list() {
    const words = at("search").value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = failing.filter(([name, , failures, message, values]) => {
      const text = `${name} ${failures} ${message}`.toLowerCase();
      return words.every((word) => text.includes(word)) && Object.entries(wanted).every(([a, v]) => values[a] === v);
    });
    at("list").replaceChildren(...fits.slice(0, MOST).map(([name, status, failures, message]) => {
      const row = made("tr", "", { className: status });
      row.append(made("th", name, { scope: "row" }), made("td", status), made("td", `${failures}: ${message}`));
      return row;
    }));
    const where = Object.entries(wanted).map(([a, v]) => `${a} ${v}`).join(", ");
    at("shown").textContent = `${Math.min(fits.length, MOST)} of ${fits.length}${where ? `; ${where}` : ""}`;
  }

  function heat() {
    const [rows, columns] = [at("rows").value, at("columns").value];
    const [r, c] = [names.indexOf(rows), names.indexOf(columns)];
    const found = new Map();
    for (const [a, x, b, y, count, bad] of cells) {
      if (a === r && b === c) found.set(`${x}/${y}`, [count, bad]);
      if (a === c && b === r) found.set(`${y}/${x}`, [count, bad]);
    }
    const head = made("tr", "");
    head.append(made("th", `${rows} \\ ${columns}`, { scope: "col" }));
    axes[columns].forEach((value) => head.append(made("th", value, { scope: "col" })));
    const lines = axes[rows].map((value, x) => {
      const line = made("tr", "");
      line.append(made("th", value, { scope: "row" }));
      axes[columns].forEach((other, y) => {
        const cell = made("td", "");
        const [count, bad] = found.get(`${x}/${y}`) || [0, 0];
        if (count) {
          const button = made("button", bad ? `${bad}/${count}` : "✓", { type: "button" });
          button.setAttribute("aria-label", `${rows} ${value}, ${columns} ${other}: ${bad}/${count} cases fail`);
          button.className = bad ? `bad b${Math.ceil((4 * bad) / count)}` : "good";
          button.onclick = () => { wanted = { [rows]: value, [columns]: other }; list(); at("failing").scrollIntoView(); };
          cell.append(button);
        }
        line.append(cell);
      });
      return line;
    });
    const table = document.createElement("tbody");
    table.append(...lines);
    const heads = document.createElement("thead");
    heads.append(head);
    at("heat").replaceChildren(heads, table);
  }

  if (names.length > 1) {
    at("maps").hidden = false;
    for (const id of ["rows", "columns"]) {
      at(id).append(...names.map((name) => made("option", name)));
      at(id).onchange = heat;
    }
    at("rows").selectedIndex = shown[0];
    at("columns").selectedIndex = shown[1];
    heat();
  }
  if (failing.length) {
    at("cases").hidden = false;
    at("search").oninput = () => { wanted = {}; list(); };
    list();
  }
})();
