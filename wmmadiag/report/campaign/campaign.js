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
    const result = at("result").value;
    const fits = failing.filter(([name, status, failures, message, values]) => {
      const text = `${name} ${failures} ${message}`.toLowerCase();
      return (!result || status === result) && words.every((word) => text.includes(word))
        && Object.entries(wanted).every(([a, v]) => values[a] === v);
    });
    at("list").replaceChildren(...fits.slice(0, MOST).map(([name, status, failures, message, , command]) => {
      const row = made("tr", "", { className: status });
      const seen = made("td", `${failures}: ${message}`);
      const repeat = document.createElement("details");
      repeat.append(made("summary", "repeat"), made("code", command));
      seen.append(repeat);
      row.append(made("th", name, { scope: "row" }), made("td", status), seen);
      return row;
    }));
    at("shown").textContent = `${Math.min(fits.length, MOST)} of ${fits.length}`;
    const where = Object.entries(wanted).map(([a, v]) => `${a} ${v}`).join(", ");
    at("every").textContent = `× ${where}`;
    at("every").setAttribute("aria-label", `show the cases of every cell, not only of ${where}`);
    at("every").hidden = !where;
  }

  function only(cell) {
    wanted = cell;
    at("search").value = at("result").value = "";
    list();
    at("failing").scrollIntoView();
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
          button.onclick = () => only({ [rows]: value, [columns]: other });
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
    for (const id of ["rows", "columns"]) at(id).append(...names.map((name) => made("option", name)));
    let drawn = shown;
    [at("rows").selectedIndex, at("columns").selectedIndex] = drawn;
    const chosen = () => {
      const [r, c] = [at("rows").selectedIndex, at("columns").selectedIndex];
      drawn = r === c ? [drawn[1], drawn[0]] : [r, c]; // one axis for both: they change places
      [at("rows").selectedIndex, at("columns").selectedIndex] = drawn;
      heat();
    };
    at("rows").onchange = at("columns").onchange = chosen;
    heat();
  }
  if (failing.length) {
    at("cases").hidden = false;
    at("result").append(...[...new Set(failing.map(([, status]) => status))].map((status) => made("option", status)));
    at("search").oninput = at("result").onchange = list;
    at("every").onclick = () => only({});
    list();
  }
})();
