// The panel of a question: what kind it is, where the search started, each hop of its walk, the evidence, the context.

const signalNames = {
  dense: 'meaning', dense_window: 'meaning of the passage', lexical: 'words', lexical_window: 'words of the passage', time: 'time',
};
const intentColors = { why: 'causal', when: 'temporal', entity: 'entity', open: 'semantic' };
let toldOrder = false;

function showQuestion(index) {
  state.question = index;
  state.hop = index < 0 ? 0 : walks[index].numHops;
  state.matches = null;
  changed();
  if (index >= 0) show([...walks[index].hopOf.keys()]);
}

function setHop(hop) {
  if (state.question < 0) return;
  state.hop = Math.max(0, Math.min(walks[state.question].numHops, hop));
  changed();
  const shown = [...walks[state.question].hopOf].filter(([, h]) => h <= state.hop).length;
  say(`hop ${state.hop}: ${plural(shown, 'node')}`);
}

function signalBadges(signals) {
  const found = Object.entries(signals);
  if (!found.length) return [make('span', { class: 'badge', text: 'by its neighbours' })];
  return found.map(([name, rank]) => make('span', { class: 'badge', text: `${signalNames[name] || name} #${rank}` }));
}

function questionPanel() {
  if (!data.queries.length) {
    return [make('p', { class: 'empty', text: 'No question was asked. Make the page with --query "…" to see the way an answer is found.' })];
  }
  const parts = [];
  if (data.queries.length > 1 || state.question < 0) {
    parts.push(make('div', { class: 'questions' }, data.queries.map((q, i) => make('button', {
      type: 'button', text: q.question, attributes: { 'aria-pressed': String(i === state.question) },
      on: { click: () => showQuestion(i === state.question ? -1 : i) },
    }))));
  }
  if (state.question < 0) return [make('p', { class: 'soft small', text: 'Choose a question to see how its answer was found.' }), ...parts];
  const query = data.queries[state.question];
  const walk = walks[state.question];
  parts.push(make('h2', { text: query.question }));
  const window_ = query.window ? ` · asks about ${query.window.map((t) => (t ? t.slice(0, 10) : '…')).join(' to ')}` : '';
  parts.push(make('p', { class: 'meta', text: `policy ${query.policy}${window_}` }));
  if (query.missing.length) parts.push(make('p', { class: 'meta', text: `not made yet: ${query.missing.join(', ')} edges` }));
  parts.push(heading('Intent'), intentBars(query));
  parts.push(...walkParts(query, walk));
  parts.push(...evidenceParts(query));
  parts.push(...contextParts(query));
  return parts;
}

function intentBars(query) {
  const rows = data.intents.flatMap((name) => {
    const p = query.intent[name];
    const bar = make('i', { color: `var(--${intentColors[name]})` });
    bar.style.width = `${(100 * p).toFixed(1)}%`;
    return [make('span', { text: name }), make('div', {}, [bar]), make('b', { text: `${Math.round(100 * p)} %` })];
  });
  return make('div', { class: 'bars' }, rows);
}

function walkParts(query, walk) {
  const anchors = query.visited.filter((v) => v.hop === 0);
  const range = make('input', {
    type: 'range', min: 0, max: Math.max(walk.numHops, 1), value: state.hop, disabled: walk.numHops === 0,
    attributes: { 'aria-label': 'Hops to show' }, on: { input: (event) => setHop(Number(event.target.value)) },
  });
  const parts = [
    heading('Walk', null, `${walk.hopOf.size} nodes${query.truncated ? ', cut at the limit' : ''}`),
    make('div', { class: 'stepper' }, [
      make('button', { type: 'button', text: '‹', attributes: { 'aria-label': 'One hop back' }, on: { click: () => setHop(state.hop - 1) } }),
      range,
      make('button', { type: 'button', text: '›', attributes: { 'aria-label': 'One hop on' }, on: { click: () => setHop(state.hop + 1) } }),
      make('span', { class: 'small soft', text: `hop ${state.hop} of ${walk.numHops}` }),
    ]),
    heading('Anchors', null, String(anchors.length)),
    ...anchors.slice(0, 40).map((v) => item(v.node, { why: signalBadges(v.signals) })),
  ];
  for (let hop = 1; hop <= state.hop; hop++) {
    const steps = walk.steps.filter((s) => s.hop === hop);
    parts.push(heading(`Hop ${hop}`, null, String(steps.length)));
    const inner = steps.slice(0, 60).map((s) => item(s.to, {
      why: [make('span', { text: `from ${cut(titleOf(s.from), 46)}` }), edgeBadge(s.type)],
    }));
    // A long hop is folded, so that the evidence is not far away.
    if (inner.length > 6) {
      parts.push(...inner.slice(0, 4), make('details', {}, [make('summary', { class: 'soft small', text: `${steps.length - 4} more steps` }), ...inner.slice(4)]));
    } else parts.push(...inner);
  }
  return parts;
}

function evidenceParts(query) {
  const order = toldOrder ? query.told : query.evidence.map((_, i) => i);
  const flip = make('button', {
    type: 'button', class: 'plain right', text: toldOrder ? 'as told' : 'best first', title: 'Change the order',
    on: { click: () => { toldOrder = !toldOrder; changed(); } },
  });
  const head = heading(`Evidence (${query.evidence.length})`);
  head.append(flip);
  if (!query.evidence.length) return [head, make('p', { class: 'empty', text: 'Nothing in this memory fits.' })];
  return [
    head,
    ...order.map((i) => {
      const e = query.evidence[i];
      const way = e.path.map(([, type]) => edgeBadge(type, `via ${type}`));
      return item(e.node, { rank: i + 1, why: [make('span', { text: e.score.toFixed(2) }), ...way, ...signalBadges(e.signals)] });
    }),
  ];
}

function contextParts(query) {
  const gauge = make('i');
  gauge.style.width = `${Math.min(100, (100 * query.context_tokens) / query.budget).toFixed(1)}%`;
  const copy = make('button', { type: 'button', class: 'plain right', text: 'copy' });
  const head = heading('Context');
  head.append(copy);
  const text = make('pre', { class: 'context', text: query.context, tabIndex: 0 });
  copy.addEventListener('click', () => {
    getSelection().selectAllChildren(text);
    copy.textContent = document.execCommand('copy') ? 'copied' : 'selected';
  });
  return [
    head,
    make('p', { class: 'small soft', text: `${query.context_tokens.toLocaleString('en')} of ${query.budget.toLocaleString('en')} tokens` }),
    make('div', { class: 'gauge' }, [gauge]),
    text,
  ];
}
