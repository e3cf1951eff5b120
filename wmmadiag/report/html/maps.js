
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("maps").textContent);
  const TILE = data.tile, AT_BOUND = data.at_bound, STEPS = data.steps, SPECIAL = data.special;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const redraws = [];
  dark.addEventListener("change", () => redraws.forEach(redraw => redraw()));

  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // --- arrays: base64 of zlib data -> numbers

  async function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).arrayBuffer();
  }

  let halves = null;
  function half(bits) {
    if (halves === null) {
      halves = new Float32Array(65536);
      for (let one = 0; one < 65536; ++one) {
        const sign = one & 0x8000 ? -1 : 1, exponent = one >> 10 & 31, fraction = one & 1023;
        halves[one] = exponent === 31 ? (fraction ? NaN : sign * Infinity)
          : exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
      }
    }
    return halves[bits];
  }

  async function numbers(text, format, scale) {
    if (!text) return null;
    const buffer = await unpacked(text);
    if (format === "f32") return new Float32Array(buffer);
    return Float32Array.from(new Uint16Array(buffer), bits => half(bits) * scale);
  }

  // --- colours; each has its sign in the zoomed tile, too, since colour alone would not do

  const mixed = (a, b, t) => a.map((value, at) => Math.round(value + (b[at] - value) * t));
  function ramp(stops, t) {
    const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1), low = Math.min(Math.floor(at), stops.length - 2);
    return mixed(stops[low], stops[low + 1], at - low);
  }
  const RIGHT = { light: [[245, 248, 252], [206, 224, 244], [128, 172, 219]], dark: [[27, 34, 43], [34, 55, 80], [56, 102, 150]] };
  const WRONG = { light: [[255, 214, 102], [242, 120, 46], [186, 28, 40], [94, 10, 50]], dark: [[150, 105, 15], [224, 120, 40], [255, 95, 85], [255, 190, 200]] };
  const SPECIALS = {
    light: { nan: [122, 47, 176], infinite: [64, 33, 140], unwritten: [96, 104, 116], unbounded: [94, 10, 50], allowed: [235, 240, 235] },
    dark: { nan: [196, 138, 250], infinite: [150, 130, 255], unwritten: [150, 158, 170], unbounded: [255, 190, 200], allowed: [32, 44, 36] },
  };
  const SIGNS = { nan: "N", infinite: "∞", unwritten: "–", unbounded: "!" };
  const WARPS = [[76, 120, 168], [245, 133, 24], [84, 162, 75], [228, 87, 86], [114, 183, 178], [178, 121, 162], [238, 202, 59], [157, 117, 93]];
  const theme = () => dark.matches ? "dark" : "light";
  const codeName = Object.fromEntries(Object.entries(SPECIAL).map(([name, code]) => [code, name]));

  function errorColour(code) {
    const name = codeName[code];
    if (name) return SPECIALS[theme()][name];
    if (code <= AT_BOUND) return ramp(RIGHT[theme()], code === 0 ? 0 : (code - (AT_BOUND - 6 * STEPS)) / (6 * STEPS));
    return ramp(WRONG[theme()], (code - AT_BOUND) / (12 * STEPS));
  }
  const isWrong = code => code > AT_BOUND && code !== SPECIAL.allowed;
  const ratio = code => 2 ** ((code - AT_BOUND) / STEPS);
  const short = value => Number.isNaN(value) ? "NaN" : !Number.isFinite(value) ? (value > 0 ? "∞" : "−∞") : Number(value.toPrecision(6)).toString().replace("-", "−");
  function errorWords(code) {
    const name = codeName[code];
    if (name) return { nan: "NaN on one side only: wrong", infinite: "infinite on one side only: wrong", unwritten: "never written: wrong", unbounded: "wrong, where the bound is 0", allowed: "not finite, and right" }[name];
    if (code === 0) return "none";
    const times = ratio(code);
    const shown = times < 10 ? times.toPrecision(2) : times < 1e4 ? Math.round(times).toString() : times.toExponential(1);
    return `about ${shown} × the bound: ${isWrong(code) ? "wrong" : "right"}`;
  }
  const css = colour => `rgb(${colour[0]} ${colour[1]} ${colour[2]})`;
  const inkOn = colour => colour[0] * .3 + colour[1] * .59 + colour[2] * .11 > 140 ? "#000" : "#fff";

  // --- one map

  const MODES = { error: "Error", observed: "Observed", expected: "Expected", difference: "Difference", owner: "Writer" };

  async function show(host, map) {
    const planes = [];
    for (const plane of map.planes) planes.push({ ...plane, codes: new Uint8Array(await unpacked(plane.error)), values: null });
    const { rows, columns } = map;
    const state = { plane: 0, mode: "error", row: 0, column: 0 };
    state.plane = Math.max(0, planes.findIndex(plane => plane.wrong));
    const start = planes[state.plane].codes.findIndex(isWrong);
    if (start >= 0) { state.row = Math.floor(start / columns); state.column = start % columns; }
    const name = `${map.output} of ${map.variant} / ${map.case}`;
    const id = `map${host.dataset.map}`;
    host.replaceChildren();
    host.setAttribute("role", "group");
    host.setAttribute("aria-label", `map of ${name}`);

    const hasValues = planes.some(plane => plane.observed), hasOwners = Object.keys(map.owners).length > 0;
    const modes = element("fieldset", { class: "modes" }, element("legend", { class: "hidden" }, "what the map shows"));
    for (const [mode, label] of Object.entries(MODES)) {
      if (mode === "owner" ? !hasOwners : mode !== "error" && !hasValues) continue;
      const input = element("input", { type: "radio", name: id, value: mode });
      input.checked = mode === state.mode;
      input.addEventListener("change", () => { state.mode = mode; draw(); });
      modes.append(element("label", {}, input, label));
    }
    host.append(element("h4", {}, `${map.output}, element by element`), element("div", { class: "bar" }, modes));

    const heads = element("div", { class: "heads", role: "group", "aria-label": "matrices of the output" });
    const thumbs = planes.map((plane, at) => {
      const canvas = element("canvas", { "aria-hidden": "true" });
      const label = plane.name ? `${plane.name}: ${plane.wrong.toLocaleString("en")} wrong` : `${plane.wrong.toLocaleString("en")} wrong`;
      const button = element("button", { type: "button", "aria-pressed": at === state.plane }, canvas, label);
      button.addEventListener("click", () => { state.plane = at; draw(); });
      heads.append(button);
      return { canvas, button };
    });
    if (planes.length > 1 || map.left_out) host.append(heads);
    if (map.left_out) host.append(element("p", { class: "caption" }, `${map.left_out} more matrices are left out for their size.`));

    const whole = element("canvas", { class: "whole", tabindex: "0", role: "application", "aria-roledescription": "heat map" });
    const zoom = element("canvas", { class: "zoom", tabindex: "0", role: "application", "aria-roledescription": "heat map" });
    const wholeCaption = element("p", { class: "caption" }), zoomCaption = element("p", { class: "caption" });
    const readout = element("dl", { class: "readout", role: "status", "aria-live": "polite" });
    const legend = element("div", { class: "legend" });
    const overview = element("div", { class: "overview" }, whole);
    host.append(element("div", { class: "views" },
      element("div", { class: "left" }, wholeCaption, overview),
      element("div", { class: "side" }, zoomCaption, zoom, readout)), legend);

    const room = Math.min(480, Math.max(240, host.clientWidth - 40));
    const scale = Math.max(1, Math.min(Math.floor(room / columns), Math.max(Math.floor(600 / rows), Math.ceil(192 / columns)), 12));
    const sharp = Math.max(1, Math.min(2, Math.ceil(devicePixelRatio || 1)));

    async function values(plane) {
      if (plane.values === null && plane.observed) {
        plane.values = { observed: await numbers(plane.observed, map.numbers, map.scale), expected: await numbers(plane.expected, map.numbers, map.scale) };
      }
      return plane.values;
    }

    const owner = (plane, row, column) => (map.owners[plane.index.join(" ")] || [])[Math.floor(row / TILE)]?.[Math.floor(column / TILE)] ?? null;

    function painter(plane) {
      if (state.mode === "error" || (state.mode !== "owner" && !plane.values)) {
        const table = Array.from({ length: 256 }, (_, code) => errorColour(code));
        return at => table[plane.codes[at]];
      }
      if (state.mode === "owner") {
        return at => {
          const found = owner(plane, Math.floor(at / columns), at % columns);
          if (!found) return SPECIALS[theme()].unwritten;
          const base = WARPS[found[1][0] % WARPS.length];
          return (found[0][0] + found[0][1] + found[0][2]) % 2 ? mixed(base, dark.matches ? [0, 0, 0] : [255, 255, 255], .3) : base;
        };
      }
      const { observed, expected } = plane.values;
      const value = state.mode === "observed" ? at => observed[at] : state.mode === "expected" ? at => expected[at] : at => observed[at] - expected[at];
      let top = 0;
      for (let at = 0; at < plane.codes.length; ++at) {
        const size = state.mode === "difference" ? Math.abs(observed[at] - expected[at]) : Math.abs(expected[at]);
        if (Number.isFinite(size) && size > top) top = size;
      }
      const zero = dark.matches ? [30, 34, 40] : [247, 247, 247];
      const low = dark.matches ? [90, 160, 255] : [33, 102, 172], high = dark.matches ? [255, 150, 80] : [190, 70, 20];
      return at => {
        const code = plane.codes[at], one = value(at);
        if (state.mode !== "expected" && code === SPECIAL.unwritten) return SPECIALS[theme()].unwritten;
        if (!Number.isFinite(one)) return SPECIALS[theme()][Number.isNaN(one) ? "nan" : "infinite"];
        return mixed(zero, one < 0 ? low : high, top ? Math.min(1, Math.sqrt(Math.abs(one) / top)) : 0);
      };
    }

    function image(colour) {
      const small = element("canvas");
      small.width = columns; small.height = rows;
      const context = small.getContext("2d"), pixels = context.createImageData(columns, rows);
      for (let at = 0; at < rows * columns; ++at) {
        const one = colour(at);
        pixels.data[4 * at] = one[0]; pixels.data[4 * at + 1] = one[1]; pixels.data[4 * at + 2] = one[2]; pixels.data[4 * at + 3] = 255;
      }
      context.putImageData(pixels, 0, 0);
      return small;
    }

    let picture = null;
    function drawWhole() {
      const plane = planes[state.plane];
      whole.width = columns * scale * sharp; whole.height = rows * scale * sharp;
      whole.style.width = `${columns * scale}px`; whole.style.height = `${rows * scale}px`;
      const context = whole.getContext("2d");
      context.scale(sharp, sharp);
      context.imageSmoothingEnabled = false;
      context.drawImage(picture, 0, 0, columns * scale, rows * scale);
      context.strokeStyle = dark.matches ? "rgb(255 255 255 / .22)" : "rgb(0 0 0 / .2)";
      context.lineWidth = 1;
      context.beginPath();
      for (let row = TILE; row < rows; row += TILE) { context.moveTo(0, row * scale + .5); context.lineTo(columns * scale, row * scale + .5); }
      for (let column = TILE; column < columns; column += TILE) { context.moveTo(column * scale + .5, 0); context.lineTo(column * scale + .5, rows * scale); }
      context.stroke();
      if (state.mode === "owner" && TILE * scale >= 16) {
        context.font = `600 ${Math.min(13, Math.max(8, TILE * scale / 4.2))}px system-ui, sans-serif`;
        context.textAlign = "center"; context.textBaseline = "middle";
        for (let row = 0; row < rows; row += TILE) for (let column = 0; column < columns; column += TILE) {
          const found = owner(plane, row, column);
          const height = Math.min(TILE, rows - row), width = Math.min(TILE, columns - column);
          context.fillStyle = inkOn(painter(plane)(row * columns + column));
          const text = !found ? "–" : found[1].length > 2 ? `${found[1].length}w` : `w${found[1].join(",")}`;
          context.fillText(text, (column + width / 2) * scale, (row + height / 2) * scale, width * scale - 2);
        }
      }
      const top = Math.floor(state.row / TILE) * TILE, left = Math.floor(state.column / TILE) * TILE;
      const height = Math.min(TILE, rows - top), width = Math.min(TILE, columns - left);
      context.lineWidth = 2;
      context.strokeStyle = dark.matches ? "#000" : "#fff";
      context.strokeRect(left * scale + 2, top * scale + 2, width * scale - 4, height * scale - 4);
      context.strokeStyle = dark.matches ? "#79b4ff" : "#0b62c4";
      context.strokeRect(left * scale + .5, top * scale + .5, width * scale - 1, height * scale - 1);
    }

    function drawZoom(colour) {
      const plane = planes[state.plane], cell = 24;
      const top = Math.floor(state.row / TILE) * TILE, left = Math.floor(state.column / TILE) * TILE;
      const height = Math.min(TILE, rows - top), width = Math.min(TILE, columns - left), margin = 26;
      zoom.width = (TILE * cell + margin) * sharp; zoom.height = (Math.min(TILE, rows) * cell + 16) * sharp;
      zoom.dataset.cell = cell; zoom.dataset.margin = margin;
      const context = zoom.getContext("2d");
      context.scale(sharp, sharp);
      const ink = getComputedStyle(document.body).getPropertyValue("--quiet");
      context.font = "10px system-ui, sans-serif"; context.textBaseline = "middle";
      for (let row = 0; row < height; ++row) {
        context.fillStyle = ink; context.textAlign = "right";
        if (row % 2 === 0) context.fillText(top + row, margin - 4, 16 + (row + .5) * cell);
        for (let column = 0; column < width; ++column) {
          const at = (top + row) * columns + left + column, one = colour(at), code = plane.codes[at];
          const x = margin + column * cell, y = 16 + row * cell;
          context.fillStyle = css(one);
          context.fillRect(x, y, cell - 1, cell - 1);
          if (isWrong(code)) {
            context.fillStyle = inkOn(one); context.textAlign = "center"; context.font = "700 11px system-ui, sans-serif";
            context.fillText(SIGNS[codeName[code]] || "×", x + cell / 2, y + cell / 2 + 1);
            context.font = "10px system-ui, sans-serif";
          }
        }
      }
      context.fillStyle = ink; context.textAlign = "center";
      for (let column = 0; column < width; column += 2) context.fillText(left + column, margin + (column + .5) * cell, 8);
      const x = margin + (state.column - left) * cell, y = 16 + (state.row - top) * cell;
      context.lineWidth = 3; context.strokeStyle = dark.matches ? "#fff" : "#000";
      context.strokeRect(x, y, cell - 1, cell - 1);
    }

    function drawText() {
      const plane = planes[state.plane], at = state.row * columns + state.column, code = plane.codes[at];
      const top = Math.floor(state.row / TILE) * TILE, left = Math.floor(state.column / TILE) * TILE;
      wholeCaption.textContent = `${plane.name ? plane.name + ", " : ""}${rows} × ${columns}`;
      zoomCaption.textContent = `tile at row ${top}, column ${left}`;
      whole.setAttribute("aria-label", `${MODES[state.mode]} of ${name} ${plane.name}: ${plane.wrong} of ${rows * columns} elements wrong. Arrow keys choose a tile.`);
      zoom.setAttribute("aria-label", `Tile at row ${top}, column ${left}. Arrow keys choose an element.`);
      const index = [...plane.index, state.row, state.column].join(", ");
      const pairs = [["element", `[${index}]`]];
      if (plane.values) {
        const { observed, expected } = plane.values;
        pairs.push(["observed", code === SPECIAL.unwritten ? "never written" : short(observed[at])], ["expected", short(expected[at])]);
        pairs.push(["difference", code === SPECIAL.unwritten ? "–" : short(observed[at] - expected[at])]);
      }
      pairs.push(["error", errorWords(code)]);
      const found = hasOwners ? owner(plane, state.row, state.column) : null;
      if (hasOwners) pairs.push(["tile written by", found ? `block (${found[0].join(", ")}), warp${found[1].length > 1 ? "s" : ""} ${found[1].join(", ")}${found[2] > 1 ? ` and ${found[2] - 1} other blocks` : ""}` : "nobody"]);
      readout.replaceChildren(...pairs.flatMap(([key, value]) => [element("dt", {}, key), element("dd", {}, value)]));
    }

    function swatch(colour, sign = "") {
      const canvas = element("canvas", { width: 15 * sharp, height: 15 * sharp, "aria-hidden": "true" });
      canvas.style.width = canvas.style.height = "15px";
      const context = canvas.getContext("2d");
      context.scale(sharp, sharp);
      context.fillStyle = css(colour);
      context.fillRect(0, 0, 15, 15);
      context.fillStyle = inkOn(colour); context.font = "700 10px system-ui, sans-serif"; context.textAlign = "center"; context.textBaseline = "middle";
      context.fillText(sign, 7.5, 8);
      return canvas;
    }

    function drawLegend() {
      const keys = [];
      const plane = planes[state.plane];
      const present = new Set(plane.codes);
      if (state.mode === "error") {
        keys.push([errorColour(0), "", "exact"], [errorColour(AT_BOUND), "", "at the bound, right"]);
        for (const [steps, text] of [[1, "just over"], [4 * STEPS, "16 ×"], [8 * STEPS, "256 ×"], [12 * STEPS, "4096 × and more"]]) keys.push([errorColour(AT_BOUND + steps), "×", text]);
      } else if (state.mode === "owner") {
        const used = new Set((map.owners[plane.index.join(" ")] || []).flat().filter(Boolean).map(found => found[1][0]));
        for (const warp of [...used].sort((a, b) => a - b).slice(0, 8)) keys.push([WARPS[warp % WARPS.length], "", `warp ${warp}`]);
      } else {
        keys.push([dark.matches ? [90, 160, 255] : [33, 102, 172], "", "negative"], [dark.matches ? [255, 150, 80] : [190, 70, 20], "", "positive"]);
      }
      const words = { nan: "NaN", infinite: "infinite", unwritten: "never written", unbounded: "wrong, bound 0" };
      for (const [special, text] of Object.entries(words)) if (present.has(SPECIAL[special]) && state.mode !== "owner") keys.push([SPECIALS[theme()][special], SIGNS[special], text]);
      const hint = element("span", { class: "hint" }, "Point, tap, or use the arrow keys; a click keeps the tile.");
      legend.replaceChildren(...keys.map(([colour, sign, text]) => element("span", { class: "key" }, swatch(colour, sign), text)), hint);
    }

    let colour = null;
    async function draw() {
      const plane = planes[state.plane];
      if (state.mode !== "error" && state.mode !== "owner") await values(plane);
      thumbs.forEach(({ button }, at) => button.setAttribute("aria-pressed", at === state.plane));
      colour = painter(plane);
      picture = image(colour);
      drawLegend();
      await move();
    }
    async function move() {
      await values(planes[state.plane]);
      drawWhole();
      drawZoom(colour);
      drawText();
      host.dataset.row = state.row; host.dataset.column = state.column; host.dataset.mode = state.mode; host.dataset.plane = state.plane;
    }
    function go(row, column) {
      const to = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)];
      if (to[0] === state.row && to[1] === state.column) return;
      [state.row, state.column] = to;
      move();
    }

    let pinned = false;
    function overWhole(event) {
      const box = whole.getBoundingClientRect();
      return [Math.floor((event.clientY - box.top) / box.height * rows), Math.floor((event.clientX - box.left) / box.width * columns)];
    }
    whole.addEventListener("pointermove", event => { if (!pinned && event.pointerType !== "touch") go(...overWhole(event)); });
    whole.addEventListener("click", event => { pinned = event.pointerType === "touch" ? false : !pinned; go(...overWhole(event)); whole.style.cursor = pinned ? "pointer" : ""; });
    function overZoom(event) {
      const box = zoom.getBoundingClientRect(), unit = box.width / (TILE * 24 + 26);
      return [Math.floor(((event.clientY - box.top) / unit - 16) / 24), Math.floor(((event.clientX - box.left) / unit - 26) / 24)];
    }
    function insideZoom(event) {
      const [row, column] = overZoom(event);
      const top = Math.floor(state.row / TILE) * TILE, left = Math.floor(state.column / TILE) * TILE;
      if (row >= 0 && column >= 0 && row < TILE && column < TILE && top + row < rows && left + column < columns) go(top + row, left + column);
    }
    zoom.addEventListener("pointermove", insideZoom);
    zoom.addEventListener("click", insideZoom);
    const ARROWS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    for (const [canvas, step] of [[whole, TILE], [zoom, 1]]) {
      canvas.addEventListener("keydown", event => {
        const arrow = ARROWS[event.key];
        if (!arrow || event.ctrlKey || event.metaKey || event.altKey) return;
        event.preventDefault();
        pinned = true;
        go(state.row + arrow[0] * step, state.column + arrow[1] * step);
        const y = state.row * scale;
        if (y < overview.scrollTop || y + TILE * scale > overview.scrollTop + overview.clientHeight) overview.scrollTop = y - overview.clientHeight / 2;
      });
    }

    function drawThumbs() {
      planes.forEach((plane, at) => {
        const table = Array.from({ length: 256 }, (_, code) => errorColour(code));
        const small = element("canvas"), { canvas } = thumbs[at];
        const wide = Math.max(1, Math.round(columns / rows * 72));
        canvas.width = Math.min(columns, 144); canvas.height = Math.min(rows, 144);
        canvas.style.width = `${Math.min(72, Math.max(18, wide))}px`;
        small.width = columns; small.height = rows;
        const context = small.getContext("2d"), pixels = context.createImageData(columns, rows);
        for (let one = 0; one < plane.codes.length; ++one) { const c = table[plane.codes[one]]; pixels.data.set([c[0], c[1], c[2], 255], 4 * one); }
        context.putImageData(pixels, 0, 0);
        canvas.getContext("2d").drawImage(small, 0, 0, canvas.width, canvas.height);
      });
    }
    const redraw = () => { if (planes.length > 1) drawThumbs(); return draw(); };
    redraws.push(redraw);
    await redraw();
    host.dataset.ready = "yes";
  }

  function complain(host) {
    host.replaceChildren(element("p", { class: "quiet" }, "This browser cannot draw the map; the tables below have its tiles."));
  }
  const hosts = [...document.querySelectorAll(".map")];
  if (!("DecompressionStream" in window)) hosts.forEach(complain);
  else {
    // Maps that are far down are drawn when they come near.
    const near = new IntersectionObserver(entries => {
      for (const entry of entries) if (entry.isIntersecting) {
        near.unobserve(entry.target);
        show(entry.target, data.maps[entry.target.dataset.map]).catch(error => { complain(entry.target); console.error(error); });
      }
    }, { rootMargin: "800px" });
    hosts.forEach(host => near.observe(host));
  }

  // The summary's rows, and with them the cases below, that hold all the words.
  const filter = document.getElementById("filter");
  if (filter) {
    const rows = [...document.querySelectorAll("table.summary tbody tr")];
    const texts = rows.map(row => row.textContent.replace(/\s+/g, " ").toLowerCase());
    const told = document.getElementById("filtered");
    filter.closest("p").hidden = false;
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const kept = new Set();
      let shown = 0;
      rows.forEach((row, at) => {
        row.hidden = !words.every(word => texts[at].includes(word));
        if (row.hidden) return;
        ++shown;
        for (const link of row.querySelectorAll("a")) kept.add(link.getAttribute("href").slice(1));
      });
      for (const part of document.querySelectorAll("section.kernel, article.case")) part.hidden = words.length > 0 && !kept.has(part.id);
      told.textContent = words.length ? `${shown} of ${rows.length} cases` : "";
    });
  }
})();
