// The drawing: force-graph draws nodes and edges at the places they came with; discs, labels and marks are put under and
// over its picture. What is out of the chosen time or not part of the answer is dimmed, never removed.

const stage = byId('graph');
const tip = byId('tip');
let view = { left: -Infinity, right: Infinity, top: -Infinity, bottom: Infinity };
let lit = null;
// While the picture moves, a part of many edges is drawn, so that it moves smoothly without a graphics card too.
const MOST_MOVING = 4000;
let moving = false;
let resting = 0;
let focus = -1;
// Entities, those of most mentions first: where labels meet, theirs stay.
const labelled = nodes.map((node) => node.id).filter(isEntity).sort((a, b) => near[b].length - near[a].length || a - b);

// Nodes of the chosen time: its events, and what these are joined to. Null when all time is chosen.
let timely = null;
let timelyFor = null;
function followRange() {
  if (timelyFor === state.range) return;
  timelyFor = state.range;
  timely = null;
  if (!state.range) return;
  timely = new Uint8Array(nodes.length);
  data.events.time.forEach((said, n) => {
    timely[n] = said !== null && said >= state.range[0] && said <= state.range[1] ? 1 : 0;
  });
  for (let n = numEvents; n < nodes.length; n++) timely[n] = near[n].some((edge) => timely[edge.node]) ? 1 : 0;
}
const inRange = (n) => !timely || timely[n] === 1;

/** The nodes that stand out now, or null when all do. */
function litNodes() {
  if (state.question >= 0) {
    const { hopOf } = walks[state.question];
    return new Set([...hopOf].filter(([, hop]) => hop <= state.hop).map(([node]) => node));
  }
  if (state.matches) return new Set(state.matches);
  const chosen = state.hovered >= 0 ? state.hovered : state.selected;
  if (chosen < 0) return null;
  return new Set([chosen, ...near[chosen].filter((e) => state.types[e.type]).map((e) => e.node)]);
}

const graph = new ForceGraph(stage)
  .nodeLabel(() => '')
  .nodeCanvasObject(paintNode)
  .nodePointerAreaPaint((node, color, ctx, scale) => {
    if (node.kind === 'episode' && !state.types.episode) return;
    ctx.fillStyle = color;
    ctx.beginPath();
    ctx.arc(node.x, node.y, Math.max(node.size + 2, 7 / scale), 0, 2 * Math.PI);
    ctx.fill();
  })
  .linkPointerAreaPaint(() => {})
  .linkVisibility((link) => !moving || link.kept || Boolean(link.step) || touches(link))
  .linkColor(linkColor)
  .linkWidth((link) => (link.step ? (link.told ? 2.6 : 1.3) : touches(link) ? 1.6 : 0.8))
  .linkCurvature((link) => (link.step ? 0.18 : 0))
  .linkDirectionalArrowLength((link) => (link.step || (link.type === 'causal' && state.question < 0) ? 6 : 0))
  .linkDirectionalArrowRelPos(0.72)
  .enableNodeDrag(false)
  .cooldownTicks(0)
  .autoPauseRedraw(true)
  .minZoom(0.02)
  .maxZoom(12)
  .d3Force('charge', null)
  .d3Force('center', null)
  .d3Force('link', null)
  .onZoom(() => {
    moving = true;
    clearTimeout(resting);
    resting = setTimeout(() => { moving = false; changed(); }, 180);
  })
  .onRenderFramePre(paintUnder)
  .onRenderFramePost(paintOver)
  .onNodeHover((node) => {
    state.hovered = node ? node.id : -1;
    showTip();
    changed();
  })
  .onNodeClick((node) => select(node.id, false))
  .onBackgroundClick(() => select(-1, false));

const touches = (link) => focus >= 0 && (link.source.id === focus || link.target.id === focus);

let baseAlpha = {};
function linkColor(link) {
  if (link.step) return faint(colors[link.type], link.told ? 1 : 0.55);
  const both = inRange(link.source.id) && inRange(link.target.id);
  if (touches(link) && both) return faint(colors[link.type], 0.9);
  let alpha = baseAlpha[link.type] * (link.share ?? 1) * (both ? 1 : 0.1);
  if (lit && !(lit.has(link.source.id) && lit.has(link.target.id) && state.question < 0)) alpha *= state.question < 0 ? 0.25 : 0.15;
  return faint(colors[link.type], alpha);
}

function paintNode(node, ctx, scale) {
  if (node.x < view.left || node.x > view.right || node.y < view.top || node.y > view.bottom) return;
  if (node.kind === 'episode' && !state.types.episode && !(lit && lit.has(node.id))) return;
  const shown = inRange(node.id) && (!lit || lit.has(node.id));
  ctx.globalAlpha = shown ? 1 : 0.13;
  ctx.fillStyle = colorOf(node.id);
  // Never so small that it is gone from the screen.
  const size = Math.max(node.size, 1.4 / scale);
  ctx.beginPath();
  if (node.kind === 'entity') {
    ctx.moveTo(node.x, node.y - size * 1.2);
    ctx.lineTo(node.x + size * 1.2, node.y);
    ctx.lineTo(node.x, node.y + size * 1.2);
    ctx.lineTo(node.x - size * 1.2, node.y);
    ctx.closePath();
  } else if (node.kind === 'episode') {
    ctx.rect(node.x - size, node.y - size, 2 * size, 2 * size);
  } else {
    ctx.arc(node.x, node.y, size, 0, 2 * Math.PI);
  }
  ctx.fill();
  ctx.globalAlpha = 1;
  if (node.id === state.selected) ring(ctx, node, size + 4 / scale, 2.5 / scale, colors.accent);
}

function ring(ctx, node, radius, width, color) {
  ctx.strokeStyle = color;
  ctx.lineWidth = width;
  ctx.beginPath();
  ctx.arc(node.x, node.y, radius, 0, 2 * Math.PI);
  ctx.stroke();
}

function paintUnder(ctx, scale) {
  const a = graph.screen2GraphCoords(-20, -20);
  const b = graph.screen2GraphCoords(stage.clientWidth + 20, stage.clientHeight + 20);
  view = { left: a.x, top: a.y, right: b.x, bottom: b.y };
  ctx.fillStyle = colors.disc;
  ctx.strokeStyle = colors['disc-line'];
  ctx.lineWidth = 1 / scale;
  for (const [, , , x, y, radius] of data.groups) {
    if (x + radius < a.x || x - radius > b.x || y + radius < a.y || y - radius > b.y) continue;
    ctx.beginPath();
    ctx.arc(x, y, radius, 0, 2 * Math.PI);
    ctx.fill();
    ctx.stroke();
  }
}

function font(ctx, size, weight) {
  ctx.font = `${weight} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif`;
}

function write(ctx, text, x, y, size, color, weight = 500) {
  font(ctx, size, weight);
  ctx.lineWidth = size / 3.5;
  ctx.strokeStyle = colors.bg;
  ctx.lineJoin = 'round';
  ctx.strokeText(text, x, y);
  ctx.fillStyle = color;
  ctx.fillText(text, x, y);
}

// Boxes of the labels of one picture; a label that would lie on another is left out.
let taken = [];
function hasRoom(ctx, text, x, y, size, weight) {
  font(ctx, size, weight);
  const half = ctx.measureText(text).width / 2 + size / 3;
  const box = [x - half, y - size, x + half, y + size * 0.3];
  for (const other of taken) {
    if (box[0] < other[2] && box[2] > other[0] && box[1] < other[3] && box[3] > other[1]) return false;
  }
  taken.push(box);
  return true;
}

function paintOver(ctx, scale) {
  ctx.textAlign = 'center';
  ctx.textBaseline = 'alphabetic';
  taken = [];
  if (state.question >= 0) paintAnswer(ctx, scale);
  const size = 11.5 / scale;
  data.groups.forEach(([, , , x, y, radius], i) => {
    const wide = 2 * radius * scale;
    if (wide < 24 || y - radius < view.top || y - radius > view.bottom || x < view.left || x > view.right) return;
    for (const text of [cut(groupTitles[i][0], Math.max(12, Math.floor((wide + 30) / 6.2))), groupTitles[i][1]]) {
      if (text && hasRoom(ctx, text, x, y - radius - 5 / scale, size, 600)) {
        write(ctx, text, x, y - radius - 5 / scale, size, colors.soft, 600);
        break;
      }
    }
  });
  let written = 0;
  for (const n of labelled) {
    const node = nodes[n];
    if (node.x < view.left || node.x > view.right || node.y < view.top || node.y > view.bottom) continue;
    const wanted = lit ? lit.has(n) : scale > 1.5 || near[n].length * scale > 1.2;
    const place = [node.x, node.y - node.size - 3 / scale, size];
    const text = cut(titleOf(n), 28);
    if (!wanted || !hasRoom(ctx, text, ...place, 500)) continue;
    write(ctx, text, ...place, colors.entity);
    if (++written === 200) break;
  }
}

/** Anchors get a ring, evidence its rank. */
function paintAnswer(ctx, scale) {
  const { hopOf, rankOf } = walks[state.question];
  for (const [n, hop] of hopOf) {
    if (hop > state.hop || !isEvent(n)) continue;
    const node = nodes[n];
    if (hop === 0) ring(ctx, node, node.size + 2.5 / scale, 2 / scale, colors.ink);
    const rank = rankOf.get(n);
    if (rank !== undefined && (rank <= 10 || scale > 1.2)) {
      write(ctx, String(rank), node.x + (node.size + 7 / scale), node.y - 4 / scale, 12 / scale, colors.ink, 700);
    }
  }
}

function showTip() {
  const n = state.hovered;
  tip.hidden = n < 0;
  if (n < 0) return;
  const head = isEvent(n)
    ? `${speakerOf(n)} · ${moment(data.events.time[n])}`
    : isEntity(n) ? `${data.entities.type[entityAt(n)]} · ${plural(eventsOf(n).length, 'message')}` : 'episode';
  tip.replaceChildren(make('b', { text: head }), document.createTextNode(cut(titleOf(n), 240)));
}

byId('stage').addEventListener('pointermove', (event) => {
  const box = byId('stage').getBoundingClientRect();
  const x = event.clientX - box.left;
  const y = event.clientY - box.top;
  tip.style.left = x > box.width / 2 ? 'auto' : `${x + 14}px`;
  tip.style.right = x > box.width / 2 ? `${box.width - x + 14}px` : 'auto';
  tip.style.top = y > box.height / 2 ? 'auto' : `${y + 14}px`;
  tip.style.bottom = y > box.height / 2 ? `${box.height - y + 14}px` : 'auto';
});
byId('stage').addEventListener('pointerleave', () => { tip.hidden = true; });

/** Gives the drawing the edges that are switched on, and those of the walk. */
function setLinks() {
  const links = [];
  for (const type of data.edge_types) {
    if (!state.types[type]) continue;
    baseAlpha[type] = Math.max(0.045, Math.min(0.5, 0.5 * (600 / Math.max(1, linksOf[type].length)) ** 0.65));
    links.push(...linksOf[type]);
  }
  const every = Math.ceil(links.length / MOST_MOVING);
  links.forEach((link, i) => { link.kept = i % every === 0; });
  // Few that say much may be strong, and neighbours in time do not tangle.
  baseAlpha.causal = 0.9;
  baseAlpha.temporal = 0.5;
  if (state.question >= 0) {
    for (const { from, to, type, hop, told } of walks[state.question].steps) {
      if (hop <= state.hop) links.push({ source: nodes[from], target: nodes[to], type, step: hop, told });
    }
  }
  graph.graphData({ nodes, links });
}

let drawn = '';
followers.push(() => {
  focus = state.hovered >= 0 ? state.hovered : state.selected;
  followRange();
  lit = litNodes();
  const wanted = JSON.stringify([state.types, state.question, state.hop]);
  if (wanted !== drawn) {
    drawn = wanted;
    setLinks();
  }
  // A new accessor is how the drawing is told that something it cannot see has changed.
  graph.linkColor((link) => linkColor(link));
});

/** Brings some nodes into view, or everything. */
function show(wanted, time = 400) {
  const calm = matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : time;
  const few = wanted && wanted.length;
  const chosen = few ? wanted.map((n) => nodes[n]) : nodes.filter((n) => n.kind !== 'episode');
  if (!chosen.length) return;
  let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
  for (const { fx, fy } of chosen) {
    left = Math.min(left, fx); right = Math.max(right, fx); top = Math.min(top, fy); bottom = Math.max(bottom, fy);
  }
  // Room for the switches above and the legend below.
  const [width, height] = [stage.clientWidth - (few ? 130 : 80), stage.clientHeight - 140];
  const scale = Math.min(width / Math.max(right - left, few ? 160 : 1), height / Math.max(bottom - top, few ? 120 : 1), 2.2);
  graph.zoom(Math.max(scale, 0.02), calm);
  // A little below the middle, because the switches are above.
  graph.centerAt((left + right) / 2, (top + bottom) / 2 - 16 / Math.max(scale, 0.02), calm);
}

function fitSize() {
  graph.width(byId('stage').clientWidth).height(byId('stage').clientHeight);
}
new ResizeObserver(fitSize).observe(byId('stage'));
