// Keys, theme, and the first picture.

const keyHelp = [
  ['→ ←', 'next and previous message'],
  ['↓ ↑', 'go along the edges of the selected node'],
  ['Enter', 'details of the selected node'],
  ['/', 'search'],
  ['[ ]', 'one hop of the walk back, on'],
  ['1 … 5', `switch edges: ${data.edge_types.join(', ')}`],
  ['+ − 0', 'closer, farther, everything'],
  ['q d e', 'question, details, entities'],
  ['t', 'light or dark'],
  ['Esc', 'let go: search, selection, question'],
];

function showKeys() {
  const dialog = byId('keys');
  dialog.replaceChildren(
    make('h2', { text: 'Keys' }),
    make('dl', {}, keyHelp.flatMap(([key, what]) => [make('dt', {}, [make('kbd', { text: key })]), make('dd', { text: what })])),
    make('p', { class: 'soft small', text: 'A disc is a session; inside it time runs from the middle outwards. Discs follow each other like words in a text.' }),
    make('p', { class: 'soft small', text: `Made by magma-gpu ${data.version}. Drawn with force-graph (MIT); licences are in the page’s source.` }),
    make('p', {}, [make('button', { type: 'button', class: 'plain', text: 'Close', on: { click: () => dialog.close() } })]),
  );
  dialog.showModal();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  readColors();
  graph.backgroundColor(colors.bg);
  changed();
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  readColors();
  graph.backgroundColor(colors.bg);
  changed();
});

function zoomBy(factor) {
  graph.zoom(Math.min(12, Math.max(0.02, graph.zoom() * factor)), 150);
}

let turn = 0;
/** The next node along the edges of the one that arrow keys walk from. */
function along(step) {
  const joined = near[state.selected] || [];
  if (!joined.length) return;
  turn = (turn + step + joined.length) % joined.length;
  select(joined[turn].node);
}

function letGo() {
  if (state.matches) {
    byId('search').value = '';
    find('');
  } else if (state.selected >= 0) select(-1);
  else if (state.question >= 0) showQuestion(-1);
}

const onKey = {
  '/': () => byId('search').focus(),
  '?': showKeys,
  t: () => setTheme(isDark() ? 'light' : 'dark'),
  q: () => openTab('question'),
  d: () => openTab('details'),
  e: () => openTab('entities'),
  '[': () => setHop(state.hop - 1),
  ']': () => setHop(state.hop + 1),
  '+': () => zoomBy(1.4),
  '=': () => zoomBy(1.4),
  '-': () => zoomBy(1 / 1.4),
  0: () => show(),
  Escape: letGo,
};
const onGraphKey = {
  ArrowRight: () => select(isEvent(state.selected) ? Math.min(numEvents - 1, state.selected + 1) : 0),
  ArrowLeft: () => select(isEvent(state.selected) ? Math.max(0, state.selected - 1) : numEvents - 1),
  ArrowDown: () => along(1),
  ArrowUp: () => along(-1),
  Enter: () => { if (state.selected >= 0) openTab('details'); },
};

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || byId('keys').open) return;
  const typing = event.target.matches('input[type="search"]');
  if (typing) {
    if (event.key !== 'Escape') return;
    event.target.blur();
    letGo();
    return;
  }
  const number = Number(event.key);
  if (number >= 1 && number <= data.edge_types.length) {
    const type = data.edge_types[number - 1];
    state.types[type] = !state.types[type];
    say(`${type} edges ${state.types[type] ? 'on' : 'off'}`);
    changed();
    return;
  }
  const free = event.target === document.body || event.target === stage || stage.contains(event.target);
  const handler = onKey[event.key] || (free && numEvents ? onGraphKey[event.key] : undefined);
  if (!handler) return;
  event.preventDefault();
  handler();
});

byId('theme').addEventListener('click', onKey.t);
byId('help').addEventListener('click', showKeys);
byId('fit').addEventListener('click', () => show());
byId('zoom-in').addEventListener('click', () => zoomBy(1.4));
byId('zoom-out').addEventListener('click', () => zoomBy(1 / 1.4));

// A link may say what to open: #theme=dark&node=12&question=0&hop=1&search=words&tab=entities
const wish = new URLSearchParams(location.hash.slice(1));
if (['dark', 'light'].includes(wish.get('theme'))) document.documentElement.dataset.theme = wish.get('theme');
readColors();
fitSize();
graph.backgroundColor(colors.bg);
changed();
queueMicrotask(() => {
  show(null, 0);
  const question = wish.has('question') ? Number(wish.get('question')) : 0;
  if (data.queries[question]) {
    showQuestion(question);
    if (wish.has('hop')) setHop(Number(wish.get('hop')));
    show([...walks[question].hopOf.keys()], 0);
  }
  if (wish.get('search')) {
    byId('search').value = wish.get('search');
    find(wish.get('search'));
  }
  if (wish.has('node') && nodes[Number(wish.get('node'))]) {
    const n = Number(wish.get('node'));
    select(n, false);
    show([n, ...near[n].map((e) => e.node)], 0);
  }
  if (tabs[wish.get('tab')]) openTab(wish.get('tab'));
  requestAnimationFrame(() => requestAnimationFrame(() => {
    document.documentElement.dataset.ready = Math.round(performance.now());
  }));
});
