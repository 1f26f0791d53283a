// The panel of what is selected: a message, an entity or an episode, and what it is joined to.

/** A button that selects a node. */
function item(n, options = {}) {
  const { rank, why = [], marks = false } = options;
  const lead = rank !== undefined
    ? make('span', { class: 'rank', text: String(rank) })
    : make('span', { class: isEntity(n) ? 'dot diamond' : 'dot', color: colorOf(n) });
  const words = make('span', { class: 'words' });
  if (marks) marked(words, titleOf(n));
  else words.textContent = cut(titleOf(n), 320);
  const who = isEvent(n)
    ? make('span', { class: 'who' }, [make('b', { text: speakerOf(n) }), document.createTextNode(` · ${moment(data.events.time[n])}`)])
    : make('span', { class: 'who', text: isEntity(n) ? data.entities.type[entityAt(n)] : 'episode' });
  return make(
    'button',
    { type: 'button', class: 'item', attributes: { 'aria-current': String(n === state.selected) }, on: { click: () => select(n) } },
    [lead, make('span', {}, [who, make('br'), words]), why.length ? make('span', { class: 'why' }, why) : null],
  );
}

const edgeBadge = (type, text = type) => make('span', { class: 'badge edge', text, color: `var(--${type})` });

/** Text with the words of the search marked. */
function marked(element, text) {
  const lower = text.toLowerCase();
  const first = state.terms.map((t) => lower.indexOf(t)).filter((i) => i >= 0).sort((a, b) => a - b)[0] ?? 0;
  // From the start of a word.
  const start = first > 60 ? text.lastIndexOf(' ', first - 40) + 1 : 0;
  const part = (start ? '…' : '') + cut(text.slice(start), 320);
  const low = part.toLowerCase();
  let done = 0;
  while (done < part.length) {
    let next = [-1, 0];
    for (const term of state.terms) {
      const place = low.indexOf(term, done);
      if (place >= 0 && (next[0] < 0 || place < next[0])) next = [place, term.length];
    }
    if (next[0] < 0) break;
    element.append(part.slice(done, next[0]), make('mark', { text: part.slice(next[0], next[0] + next[1]) }));
    done = next[0] + next[1];
  }
  element.append(part.slice(done));
}

function detailsOf(n) {
  if (n < 0) return [make('p', { class: 'empty', text: 'Nothing is selected. Choose a node of the graph, or press → to start with the first message.' })];
  if (isEvent(n)) return eventDetails(n);
  if (isEntity(n)) {
    const i = entityAt(n);
    const others = data.entities.aliases[i].filter((a) => a !== data.entities.name[i]);
    return [
      make('h2', { text: data.entities.name[i] }),
      make('p', { class: 'meta', text: data.entities.type[i] + (others.length ? ` · also ${others.join(', ')}` : '') }),
      ...listed(`Messages that mention it`, 'entity', eventsOf(n)),
    ];
  }
  return [make('h2', { text: titleOf(n) }), make('p', { class: 'meta', text: 'episode' }), ...listed('Messages', 'episode', eventsOf(n))];
}

const heading = (text, type, right) => make('h3', {}, [
  type ? make('i', { color: `var(--${type})` }) : null,
  document.createTextNode(text),
  right ? make('span', { class: 'right', text: right }) : null,
]);

const MOST = 300;
function listed(title, type, list) {
  const more = list.length - MOST;
  return [
    heading(title, type, String(list.length)),
    ...list.slice(0, MOST).map((n) => item(n)),
    more > 0 ? make('p', { class: 'soft small', text: `and ${more} more` }) : null,
  ];
}

/** Days as people write them; the end is exclusive, and the ends of the calendar stand for no end. */
function interval(start, end) {
  const [open, unending] = [start < -62e9, end > 253e9];
  const last = day(Math.max(start, end - 1));
  if (open) return unending ? 'any time' : `until ${last}`;
  if (unending) return `from ${day(start)}`;
  return day(start) === last ? last : `${day(start)} to ${last}`;
}

function eventDetails(n) {
  const e = data.events;
  const parts = [
    make('h2', { text: speakerOf(n) }),
    make('p', { class: 'meta', text: `${moment(e.time[n])} · ${sessionTitle(e.session[n])}` }),
    make('p', { class: 'meta', text: `message ${e.turn[n]} · ${n + 1} of ${numEvents}` }),
    make('p', { class: 'text', text: e.text[n] }),
  ];
  if (e.caption[n]) parts.push(make('p', { class: 'soft', text: `image: ${e.caption[n]}` }));
  const about = aboutOf.get(n) || [];
  if (about.length) {
    parts.push(heading('Times it speaks of'));
    for (const [, words, start, end] of about) {
      parts.push(make('p', { text: `“${words}”: ${interval(start, end)}` }));
    }
  }
  const names = {
    temporal: [['before', false], ['next', true]],
    causal: [['caused by', false], ['leads to', true]],
    semantic: [['alike', null]],
    entity: [['mentions', true]],
    episode: [['episode', true]],
  };
  for (const type of data.edge_types) {
    for (const [title, out] of names[type]) {
      const joined = near[n].filter((x) => x.type === type && (out === null || x.out === out));
      if (!joined.length) continue;
      joined.sort((a, b) => b.weight - a.weight || a.node - b.node);
      parts.push(heading(title, type, type === 'semantic' ? 'cosine' : undefined));
      for (const { node, weight, evidence } of joined) {
        const why = [];
        if (type === 'semantic') why.push(make('span', { text: weight.toFixed(2) }));
        if (evidence) why.push(make('span', { text: `“${squeeze(evidence)}”` }));
        parts.push(item(node, { why }));
      }
    }
  }
  return parts;
}
