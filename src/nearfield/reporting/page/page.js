"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const NONE = 65535, STEPS = 65534;
  const RAMPS = { // viridis and inferno: lightness rises evenly
    mean: "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725",
    std: "000004 0b0724 210c4a 3d0965 57106e 71196e 8a226a a32c61 bc3754 d24644 e45a31 f1731d f98e09 fcac11 f9cb35 f2ea69 fcffa4",
    noise: "000004 0b0724 210c4a 3d0965 57106e 71196e 8a226a a32c61 bc3754 d24644 e45a31 f1731d f98e09 fcac11 f9cb35 f2ea69 fcffa4",
  };

  function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
    const view = new DataView(bytes.buffer), out = new Float64Array(bytes.length / 2);
    const width = (packed.hi - packed.lo) / STEPS;
    for (let i = 0; i < out.length; i++) {
      const step = view.getUint16(2 * i, true);
      out[i] = step === NONE ? NaN : packed.lo + step * width;
    }
    return out;
  }

  function show(value, width) {
    // `width` is the range on show: digits that it can tell apart, and no others
    if (!Number.isFinite(value)) return "none";
    const size = Math.abs(value);
    if (size !== 0 && (size >= 1e7 || Math.max(size, width || 0) < 1e-4)) return value.toExponential(2).replace("-", "−");
    const digits = width ? Math.min(Math.max(2 - Math.floor(Math.log10(width)), 0), 8) : 4;
    const text = value.toFixed(digits).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
    return (text === "-0" ? "0" : text).replace("-", "−");
  }

  function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((f) => f * power >= rough * 0.999), places = [];
    for (let k = Math.ceil(low / step); k * step <= high; k++) places.push(k * step);
    return places;
  }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

  // ---- slices --------------------------------------------------------------------------------------------------

  function slice(figure, curve) {
    const svg = figure.querySelector("svg"), output = figure.querySelector("output");
    const mean = unpack(curve.mean), std = unpack(curve.std), box = svg.viewBox.baseVal;
    const left = Number(svg.dataset.left), right = Number(svg.dataset.right);
    const cursor = document.createElementNS("http://www.w3.org/2000/svg", "path");
    cursor.setAttribute("class", "cursor");
    svg.append(cursor);
    let place = 0.5;
    function say() {
      const at = place * (mean.length - 1), i = Math.min(Math.floor(at), mean.length - 2), t = at - i;
      const x = curve.x[0] + place * (curve.x[1] - curve.x[0]), across = left + place * (right - left);
      const value = (array) => array[i] * (1 - t) + array[i + 1] * t;
      const range = curve.mean.hi - curve.mean.lo || Math.abs(curve.mean.hi);
      cursor.setAttribute("d", `M${across.toFixed(1)} 12V${box.height - 46}`);
      output.textContent = `${curve.name} = ${show(x, curve.x[1] - curve.x[0])}: ${show(value(mean), range)} ± ${show(value(std), range)}`;
    }
    svg.addEventListener("pointermove", (event) => {
      const rectangle = svg.getBoundingClientRect();
      const across = ((event.clientX - rectangle.left) / rectangle.width) * box.width;
      place = clamp((across - left) / (right - left), 0, 1);
      say();
    });
    figure.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[event.key];
      if (!step) return;
      event.preventDefault();
      place = clamp(place + step, 0, 1);
      say();
    });
  }
  for (const figure of document.querySelectorAll(".slice")) slice(figure, data.slices[Number(figure.dataset.slice)]);

  // ---- map -----------------------------------------------------------------------------------------------------

  function map(field) {
    const root = document.getElementById("map"), canvas = document.getElementById("canvas");
    const tip = document.getElementById("tip"), readout = document.getElementById("readout");
    const [nx, ny] = field.shape, [[x0, x1], [y0, y1]] = field.bounds;
    const layers = { mean: unpack(field.mean), std: unpack(field.std), noise: field.noise && unpack(field.noise) };
    const names = { mean: [field.words[0], field.target], std: [field.words[1], field.target], noise: [field.words[2], field.noisy] };
    const certainty = unpack(field.certainty);
    const scatter = (group) => group && { x: unpack(group.x), y: unpack(group.y) };
    const places = { points: scatter(field.points), centres: scatter(field.centres) };
    const shown = { layer: "mean", fade: true, points: false, centres: false };
    const view = { x: 0.5 * (x0 + x1), y: 0.5 * (y0 + y1), zoom: 1 };
    const margin = { left: 52, right: 8, top: 8, bottom: 40 }, images = {}, MAX_ZOOM = 60;
    let hover = null, area = null;

    root.querySelectorAll("[data-word]").forEach((e) => { e.textContent = field.words[Number(e.dataset.word)]; });
    if (!layers.noise) root.querySelector('input[value="noise"]').closest("label").remove();
    if (!places.centres) root.querySelector('[data-show="centres"]').closest("label").remove();

    function range(layer) { return field.colours[layer]; }

    function paint(layer) {
      const key = layer + (shown.fade && layer === "mean");
      if (images[key]) return images[key];
      const stops = RAMPS[layer].split(" ").map((h) => [0, 2, 4].map((i) => parseInt(h.slice(i, i + 2), 16)));
      const picture = document.createElement("canvas");
      picture.width = nx;
      picture.height = ny;
      const context = picture.getContext("2d"), image = context.createImageData(nx, ny);
      const [low, high] = range(layer), values = layers[layer];
      for (let row = 0; row < ny; row++) {
        for (let column = 0; column < nx; column++) {
          const from = row * nx + column, to = 4 * ((ny - 1 - row) * nx + column), value = values[from];
          const at = high > low ? clamp((value - low) / (high - low), 0, 1) * (stops.length - 1) : 0;
          const i = Math.min(Math.floor(at), stops.length - 2), t = at - i;
          for (let k = 0; k < 3; k++) image.data[to + k] = stops[i][k] * (1 - t) + stops[i + 1][k] * t;
          const alpha = shown.fade && layer === "mean" ? 0.05 + 0.95 * certainty[from] : 1;
          image.data[to + 3] = Number.isNaN(value) ? 0 : Math.round(255 * alpha);
        }
      }
      context.putImageData(image, 0, 0);
      images[key] = picture;
      return picture;
    }

    function measure() {
      const width = canvas.clientWidth, aspect = clamp((x1 - x0) / (y1 - y0), 0.5, 2.5);
      const inner = width - margin.left - margin.right;
      const height = clamp(inner / aspect, 250, Math.max(260, 0.82 * window.innerHeight));
      const ratio = window.devicePixelRatio || 1;
      canvas.style.height = `${Math.round(height + margin.top + margin.bottom)}px`;
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round((height + margin.top + margin.bottom) * ratio);
      area = { left: margin.left, top: margin.top, width: inner, height, ratio };
    }

    const spanX = () => (x1 - x0) / view.zoom, spanY = () => (y1 - y0) / view.zoom;
    const toX = (px) => view.x + ((px - area.left) / area.width - 0.5) * spanX();
    const toY = (py) => view.y - ((py - area.top) / area.height - 0.5) * spanY();
    const fromX = (x) => area.left + ((x - view.x) / spanX() + 0.5) * area.width;
    const fromY = (y) => area.top + (0.5 - (y - view.y) / spanY()) * area.height;

    function hold() {
      view.zoom = clamp(view.zoom, 1, MAX_ZOOM);
      view.x = clamp(view.x, x0 + spanX() / 2, x1 - spanX() / 2);
      view.y = clamp(view.y, y0 + spanY() / 2, y1 - spanY() / 2);
      canvas.classList.toggle("zoomed", view.zoom > 1);
      canvas.dataset.zoom = view.zoom.toFixed(3);
      canvas.dataset.x = view.x.toPrecision(8);
      canvas.dataset.y = view.y.toPrecision(8);
    }

    function draw() {
      const c = canvas.getContext("2d"), a = area;
      c.setTransform(a.ratio, 0, 0, a.ratio, 0, 0);
      c.clearRect(0, 0, canvas.width, canvas.height);
      c.save();
      c.beginPath();
      c.rect(a.left, a.top, a.width, a.height);
      c.clip();
      c.imageSmoothingEnabled = true;
      c.imageSmoothingQuality = "high";
      const left = fromX(x0), top = fromY(y1);
      c.drawImage(paint(shown.layer), left, top, fromX(x1) - left, fromY(y0) - top);
      const size = clamp(0.7 + 0.35 * Math.log2(view.zoom), 0.7, 3);
      if (shown.points) dots(c, places.points, size, "#000000", "rgb(255 255 255 / 50%)");
      if (shown.centres && places.centres) dots(c, places.centres, 1.6 * size + 1, "#ffffff", "#000000");
      if (hover) {
        c.strokeStyle = "rgb(255 255 255 / 90%)";
        c.lineWidth = 1.5;
        c.beginPath();
        c.arc(fromX(hover.x), fromY(hover.y), 6, 0, 7);
        c.stroke();
        c.strokeStyle = "rgb(0 0 0 / 80%)";
        c.beginPath();
        c.arc(fromX(hover.x), fromY(hover.y), 7.5, 0, 7);
        c.stroke();
      }
      c.restore();
      axes(c);
    }

    function dots(c, group, size, fill, edge) {
      c.fillStyle = fill;
      c.beginPath();
      for (let i = 0; i < group.x.length; i++) {
        const px = fromX(group.x[i]), py = fromY(group.y[i]);
        if (px < area.left - 5 || px > area.left + area.width + 5 || py < area.top - 5 || py > area.top + area.height + 5) continue;
        c.moveTo(px + size, py);
        c.arc(px, py, size, 0, 7);
      }
      c.strokeStyle = edge;
      c.lineWidth = 0.8;
      c.stroke();
      c.fill();
    }

    function fitted(c, text, width) {
      let length = text.length;
      while (length > 1 && c.measureText(text.slice(0, length) + "…").width > width) length--;
      return c.measureText(text).width <= width ? text : text.slice(0, length) + "…";
    }

    function axes(c) {
      const a = area, foot = a.top + a.height;
      c.strokeStyle = colour("--soft");
      c.fillStyle = colour("--soft");
      c.lineWidth = 1;
      c.strokeRect(a.left, a.top, a.width, a.height);
      c.font = "12px system-ui, sans-serif";
      c.textAlign = "center";
      for (const x of ticks(toX(a.left), toX(a.left + a.width), a.width < 420 ? 3 : 6)) {
        const px = fromX(x);
        c.beginPath();
        c.moveTo(px, foot);
        c.lineTo(px, foot + 4);
        c.stroke();
        c.fillText(show(x, spanX()), clamp(px, a.left + 12, a.left + a.width - 14), foot + 16);
      }
      c.textAlign = "right";
      for (const y of ticks(toY(foot), toY(a.top), 5)) {
        const py = fromY(y);
        c.beginPath();
        c.moveTo(a.left - 4, py);
        c.lineTo(a.left, py);
        c.stroke();
        c.fillText(show(y, spanY()), a.left - 6, clamp(py + 4, a.top + 9, foot));
      }
      c.fillStyle = colour("--ink");
      c.textAlign = "center";
      c.fillText(fitted(c, field.names[0], a.width), a.left + a.width / 2, foot + 33);
      c.save();
      c.translate(11, a.top + a.height / 2);
      c.rotate(-Math.PI / 2);
      c.fillText(fitted(c, field.names[1], a.height), 0, 0);
      c.restore();
    }

    function legend() {
      const [low, high] = range(shown.layer), ends = document.getElementById("ends");
      document.getElementById("what").textContent = names[shown.layer].join(" of ");
      document.getElementById("ramp").style.background =
        `linear-gradient(to right, ${RAMPS[shown.layer].split(" ").map((h) => "#" + h).join(",")})`;
      ends.replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((t) => {
        const span = document.createElement("span");
        const beyond = t === 0 && field[shown.layer].lo < low ? "≤ " : t === 1 && field[shown.layer].hi > high ? "≥ " : "";
        span.textContent = beyond + show(low + t * (high - low), high - low || Math.abs(high));
        return span;
      }));
    }

    function value(array, x, y) {
      const at = clamp(((x - x0) / (x1 - x0)) * nx - 0.5, 0, nx - 1), up = clamp(((y - y0) / (y1 - y0)) * ny - 0.5, 0, ny - 1);
      const i = Math.min(Math.floor(at), Math.max(nx - 2, 0)), j = Math.min(Math.floor(up), Math.max(ny - 2, 0)), s = at - i, t = up - j;
      const v = (a, b) => array[Math.min(b, ny - 1) * nx + Math.min(a, nx - 1)];
      return (v(i, j) * (1 - s) + v(i + 1, j) * s) * (1 - t) + (v(i, j + 1) * (1 - s) + v(i + 1, j + 1) * s) * t;
    }

    function say(x, y, px, py) {
      hover = { x, y };
      const lines = [
        `${field.names[0]} ${show(x, spanX() / 10)}`,
        `${field.names[1]} ${show(y, spanY() / 10)}`,
        `${field.words[0]} ${show(value(layers.mean, x, y), field.mean.hi - field.mean.lo || 1)}`,
        `${field.words[1]} ${show(value(layers.std, x, y), field.std.hi - field.std.lo || 1)}`,
      ];
      if (layers.noise) lines.push(`noise ${show(value(layers.noise, x, y), field.noise.hi - field.noise.lo || 1)}`);
      readout.textContent = `${lines[0]}, ${lines[1]}: ${lines.slice(2).join(", ")}`;
      if (px === undefined) {
        tip.hidden = true;
      } else {
        tip.textContent = lines.map((l) => (l.length > 44 ? l.slice(0, 43) + "…" : l)).join("\n");
        tip.hidden = false;
        tip.style.left = `${clamp(px + 14, 0, Math.max(canvas.clientWidth - tip.offsetWidth, 0))}px`;
        const below = py + 16 + tip.offsetHeight < canvas.clientHeight;
        tip.style.top = `${below ? py + 16 : Math.max(py - tip.offsetHeight - 10, 0)}px`;
      }
    }

    function zoomAt(factor, px, py) {
      const x = toX(px), y = toY(py);
      view.zoom = clamp(view.zoom * factor, 1, MAX_ZOOM);
      view.x = x - ((px - area.left) / area.width - 0.5) * spanX();
      view.y = y + ((py - area.top) / area.height - 0.5) * spanY();
      hold();
    }

    const pointers = new Map();
    const local = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    const inside = (px, py) => px >= area.left && px <= area.left + area.width && py >= area.top && py <= area.top + area.height;

    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, local(event));
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("dragging");
      touched(event);
    });
    function touched(event) {
      const [px, py] = local(event);
      if (inside(px, py)) say(toX(px), toY(py), px, py);
      draw();
    }
    canvas.addEventListener("pointermove", (event) => {
      const now = local(event), before = pointers.get(event.pointerId);
      if (before && pointers.size === 1) {
        view.x -= ((now[0] - before[0]) / area.width) * spanX();
        view.y += ((now[1] - before[1]) / area.height) * spanY();
        hold();
      } else if (before && pointers.size === 2) {
        const other = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const apart = (p) => Math.hypot(p[0] - other[0], p[1] - other[1]) || 1;
        zoomAt(apart(now) / apart(before), 0.5 * (now[0] + other[0]), 0.5 * (now[1] + other[1]));
      }
      if (before) pointers.set(event.pointerId, now);
      if (inside(...now)) say(toX(now[0]), toY(now[1]), ...now);
      else if (!before) leave();
      draw();
    });
    function release(event) {
      pointers.delete(event.pointerId);
      if (pointers.size === 0) canvas.classList.remove("dragging");
    }
    function leave() {
      hover = null;
      tip.hidden = true;
    }
    canvas.addEventListener("pointerup", release);
    canvas.addEventListener("pointercancel", release);
    canvas.addEventListener("pointerleave", () => { leave(); draw(); });
    canvas.addEventListener("wheel", (event) => {
      if (event.deltaY > 0 && view.zoom === 1) return; // nothing to zoom out of: the page may scroll
      event.preventDefault();
      zoomAt(2 ** (-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...local(event));
      touched(event);
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (step) {
        view.x += 0.1 * step[0] * spanX();
        view.y += 0.1 * step[1] * spanY();
      } else if (event.key === "+" || event.key === "=") view.zoom *= 1.5;
      else if (event.key === "-") view.zoom /= 1.5;
      else if (event.key === "0") view.zoom = 1;
      else return;
      event.preventDefault();
      hold();
      say(view.x, view.y);
      draw();
    });
    root.querySelectorAll("[data-do]").forEach((button) => button.addEventListener("click", () => {
      view.zoom = { in: view.zoom * 1.6, out: view.zoom / 1.6, all: 1 }[button.dataset.do];
      leave();
      hold();
      draw();
    }));
    root.querySelectorAll("input[name=layer]").forEach((input) => input.addEventListener("change", () => {
      shown.layer = input.value;
      legend();
      draw();
    }));
    root.querySelectorAll("[data-show]").forEach((input) => {
      shown[input.dataset.show] = input.checked; // browsers may remember it over a reload
      input.addEventListener("change", () => { shown[input.dataset.show] = input.checked; draw(); });
    });
    shown.layer = root.querySelector("input[name=layer]:checked").value;
    const again = () => { measure(); draw(); };
    new ResizeObserver(again).observe(root);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    window.addEventListener("beforeprint", again);
    hold();
    legend();
    again();
  }
  if (data.map) map(data.map);
})();
