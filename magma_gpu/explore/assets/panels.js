// Tabs, search, the list of entities, switches and legend.

const tabs = { question: 'Question', details: 'Details', search: 'Search', entities: 'Entities' };
let tab = data.queries.length ? 'question' : 'details';
let entityFilter = '';

function openTab(name, focusIt = false) {
  tab = name;
  changed();
  if (focusIt) queueMicrotask(() => byId(`tab-${name}`).focus());
}

for (const [name, title] of Object.entries(tabs)) {
  byId('tabs').append(make('button', {
    type: 'button', id: `tab-${name}`, text: title,
    attributes: { role: 'tab', 'aria-controls': `panel-${name}` },
    on: {
      click: () => openTab(name),
      keydown: (event) => {
        const names = Object.keys(tabs);
        const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!move) return;
        event.preventDefault();
        event.stopPropagation();
        openTab(names[(names.indexOf(name) + move + names.length) % names.length], true);
      },
    },
  }));
  byId('panels').append(make('div', { class: 'panel', id: `panel-${name}`, tabIndex: -1, attributes: { role: 'tabpanel', 'aria-labelledby': `tab-${name}` } }));
}

const shownBy = {
  question: () => [questionPanel, [state.question, state.hop, state.selected, toldOrder]],
  details: () => [() => detailsOf(state.selected), [state.selected]],
  search: () => [searchPanel, [state.terms, state.selected]],
  entities: () => [entitiesPanel, [entityFilter, state.selected]],
};
const filled = {};

followers.push(() => {
  for (const name of Object.keys(tabs)) {
    const open = name === tab;
    byId(`tab-${name}`).setAttribute('aria-selected', String(open));
    byId(`tab-${name}`).tabIndex = open ? 0 : -1;
    byId(`panel-${name}`).hidden = !open;
    if (!open) continue;
    const [build, depends] = shownBy[name]();
    const key = JSON.stringify(depends);
    if (filled[name] === key) continue;
    const panel = byId(`panel-${name}`);
    // Another selection must not lose the place in a list; another message starts at its head.
    const place = name === 'details' ? 0 : panel.scrollTop;
    const inFilter = document.activeElement && document.activeElement.id === 'entity-filter';
    panel.replaceChildren(...build().filter(Boolean));
    panel.scrollTop = place;
    if (inFilter) byId('entity-filter').focus();
    filled[name] = key;
  }
});

// ---- search

const searched = nodes.map((_, n) => (isEvent(n)
  ? plain(`${speakerOf(n)} ${data.events.text[n]} ${data.events.caption[n] || ''}`)
  : isEntity(n) ? plain([data.entities.name[entityAt(n)], ...data.entities.aliases[entityAt(n)]].join(' ')) : ''));

function find(text) {
  state.terms = plain(text).split(/\s+/).filter(Boolean);
  state.matches = null;
  if (state.terms.length) {
    state.question = -1;
    state.matches = [];
    for (let n = 0; n < nodes.length; n++) {
      if (searched[n] && state.terms.every((t) => searched[n].includes(t))) state.matches.push(n);
    }
    tab = 'search';
    say(plural(state.matches.length, 'match', 'matches'));
  }
  changed();
}

function searchPanel() {
  if (!state.terms.length) return [make('p', { class: 'empty', text: 'Type in the search field: all words must occur, in any order.' })];
  const found = state.matches || [];
  const names = found.filter(isEntity);
  const said = found.filter(isEvent);
  if (!found.length) return [make('p', { class: 'empty', text: 'Nothing holds all these words.' })];
  return [
    ...(names.length ? [heading('Entities', 'entity', String(names.length)), ...names.slice(0, 40).map((n) => item(n, { marks: true }))] : []),
    heading('Messages', null, said.length > 200 ? `first 200 of ${said.length}` : String(said.length)),
    ...said.slice(0, 200).map((n) => item(n, { marks: true })),
  ];
}

let pause = 0;
byId('search').addEventListener('input', (event) => {
  clearTimeout(pause);
  pause = setTimeout(() => find(event.target.value), 120);
});
byId('search-form').addEventListener('submit', (event) => {
  event.preventDefault();
  find(byId('search').value);
  if (state.matches && state.matches.length) {
    show(state.matches.slice(0, 200));
    select(state.matches.find(isEvent) ?? state.matches[0], false, false);
  }
});

// ---- entities

const entityOrder = data.entities.name
  .map((_, i) => firstEntity + i)
  .sort((a, b) => near[b].length - near[a].length || a - b);

function entitiesPanel() {
  const wanted = plain(entityFilter);
  const list = entityOrder.filter((n) => searched[n].includes(wanted));
  const filter = make('input', {
    id: 'entity-filter', type: 'search', value: entityFilter, placeholder: 'Filter entities',
    attributes: { 'aria-label': 'Filter entities' },
    on: { input: (event) => { entityFilter = event.target.value; changed(); } },
  });
  if (!entityOrder.length) return [make('p', { class: 'empty', text: 'No entities: the slow path has not run, or it found none.' })];
  return [
    filter,
    ...list.slice(0, MOST).map((n) => {
      const button = item(n);
      const open = n === state.selected;
      button.append(make('span', { class: 'why' }, [make('span', { text: plural(eventsOf(n).length, 'message') })]));
      if (!open) return button;
      return make('div', {}, [button, ...eventsOf(n).slice(0, 50).map((e) => item(e))]);
    }),
    list.length > MOST ? make('p', { class: 'soft small', text: `and ${list.length - MOST} more: type to filter` }) : null,
  ];
}

// ---- switches, legend, selection

const many = 12000;
for (const type of data.edge_types) {
  const count = linksOf[type].length;
  state.types[type] = type !== 'episode' && count > 0 && (count <= many || type === 'temporal');
  const lacks = data.missing.includes(type);
  byId('switches').append(make('button', {
    type: 'button', class: 'switch', id: `switch-${type}`, color: `var(--${type})`,
    title: lacks ? `${type} edges are not made yet` : `${count.toLocaleString('en')} ${type} edges (${data.edge_types.indexOf(type) + 1})`,
    on: { click: () => { state.types[type] = !state.types[type]; changed(); } },
  }, [make('i'), document.createTextNode(type), make('small', { text: lacks ? 'not made' : count.toLocaleString('en') })]));
}
const hiddenAtFirst = data.edge_types.filter((t) => t !== 'episode' && linksOf[t].length > many && !state.types[t]);
if (hiddenAtFirst.length) {
  byId('note').hidden = false;
  byId('note').textContent = `${hiddenAtFirst.join(' and ')} edges are many: switch them on above, or select a node`;
}
followers.push(() => {
  for (const type of data.edge_types) byId(`switch-${type}`).setAttribute('aria-pressed', String(state.types[type]));
});

data.speakers.slice(0, 6).forEach((name, i) => {
  byId('legend').append(make('span', {}, [make('i', { color: `var(--s${i})` }), document.createTextNode(cut(squeeze(name), 24))]));
});
if (data.speakers.length > 6) byId('legend').append(make('span', {}, [make('i', { color: 'var(--s6)' }), document.createTextNode('others')]));
if (data.entities.name.length) byId('legend').append(make('span', {}, [make('i', { class: 'diamond', color: 'var(--entity)' }), document.createTextNode('entity')]));

byId('memory').textContent = data.memory;
byId('counts').textContent = [
  plural(numEvents, 'message'), plural(data.sessions.id.length, 'session'), plural(data.entities.name.length, 'entity', 'entities'),
].join(' · ');

const say = (text) => { byId('live').textContent = text; };

/** Selects a node; brings it into view and opens its panel where that is wanted. */
function select(n, move = true, open = true) {
  state.selected = n;
  if (n >= 0) {
    if (open && (tab !== 'entities' || isEvent(n)) && !(tab === 'question' && state.question >= 0) && tab !== 'search') tab = 'details';
    if (move) {
      const { x, y } = graph.graph2ScreenCoords(nodes[n].fx, nodes[n].fy);
      const far = x < 40 || y < 60 || x > stage.clientWidth - 40 || y > stage.clientHeight - 50;
      if (far || graph.zoom() < 0.5) {
        const calm = matchMedia('(prefers-reduced-motion: reduce)').matches ? 0 : 350;
        graph.centerAt(nodes[n].fx, nodes[n].fy, calm);
        if (graph.zoom() < 0.9) graph.zoom(0.9, calm);
      }
    }
    say(isEvent(n) ? `${speakerOf(n)}: ${cut(titleOf(n), 300)}` : titleOf(n));
  }
  changed();
}
