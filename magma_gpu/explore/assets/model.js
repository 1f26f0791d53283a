// The memory as nodes and edges. Nodes are numbered: events by position, then episodes, then entities.

const numEvents = data.events.text.length;
const firstEntity = numEvents + data.episodes.title.length;
const nodes = [];
for (let i = 0; i < numEvents; i++) {
  nodes.push({ id: i, kind: 'event', fx: data.events.x[i], fy: data.events.y[i], speaker: Math.min(data.events.speaker[i], 6), size: 4 });
}
data.episodes.title.forEach((title, i) => {
  nodes.push({ id: numEvents + i, kind: 'episode', fx: data.episodes.x[i], fy: data.episodes.y[i], size: 4 });
});
data.entities.name.forEach((name, i) => {
  nodes.push({ id: firstEntity + i, kind: 'entity', fx: data.entities.x[i], fy: data.entities.y[i], size: 4 });
});

// near[n]: every edge at n, as {node, type, out, weight, evidence}.
const near = nodes.map(() => []);
const linksOf = {};
for (const type of data.edge_types) {
  const { src, dst, weight, evidence } = data.edges[type];
  linksOf[type] = src.map((source, i) => {
    const target = dst[i];
    const own = { weight: weight.length ? weight[i] : 1, evidence: evidence.length ? evidence[i] : null };
    near[source].push({ node: target, type, out: true, ...own });
    near[target].push({ node: source, type, out: false, ...own });
    return { source, target, type };
  });
}
for (let n = firstEntity; n < nodes.length; n++) nodes[n].size = 3 + Math.min(6, Math.sqrt(near[n].length));
// Edges of what is mentioned everywhere would cover all others: they are drawn fainter.
for (const link of linksOf.entity) {
  const joined = near[link.target].length;
  link.share = joined > 100 ? 0.25 : joined > 20 ? 0.5 : 1;
}

const aboutOf = new Map();
for (const entry of data.about) {
  if (!aboutOf.has(entry[0])) aboutOf.set(entry[0], []);
  aboutOf.get(entry[0]).push(entry);
}

const isEvent = (n) => n < numEvents;
const isEntity = (n) => n >= firstEntity;
const speakerOf = (n) => data.speakers[data.events.speaker[n]];
const entityAt = (n) => n - firstEntity;

function colorOf(n) {
  if (isEvent(n)) return colors.speakers[nodes[n].speaker];
  return isEntity(n) ? colors.entity : colors.episode;
}

/** What a node is called in one line. */
function titleOf(n) {
  if (isEvent(n)) return squeeze(data.events.text[n] || data.events.caption[n] || '');
  return isEntity(n) ? data.entities.name[entityAt(n)] : squeeze(data.episodes.title[n - numEvents]);
}

function sessionTitle(s) {
  const title = data.sessions.title[s];
  const said = data.sessions.time[s];
  if (title) return said === null ? title : `${day(said)} · ${title}`;
  return said === null ? data.sessions.id[s] : day(said);
}

// What stands above each disc, long and short; a later part of a long session is named by its own first day.
const groupTitles = data.groups.map(([session, first], i) => {
  const said = data.events.time[first];
  const later = i > 0 && data.groups[i - 1][0] === session;
  const brief = said === null ? '' : shortDay(said);
  return later ? [day(said), brief] : [sessionTitle(session), brief];
});

/** Events of an entity or episode, in the order they were said. */
const eventsOf = (n) => [...new Set(near[n].filter((e) => isEvent(e.node)).map((e) => e.node))].sort((a, b) => a - b);

// The steps of each question's walk, every one once: {from, to, type, hop, told}; `told`: it leads to evidence.
const walks = data.queries.map((query) => {
  const hopOf = new Map();
  const steps = new Map();
  const evidence = new Set(query.evidence.map((e) => e.node));
  const met = (node, hop) => hopOf.set(node, Math.min(hop, hopOf.get(node) ?? hop));
  for (const visit of query.visited) {
    const way = [...visit.path, [visit.node, null]];
    way.forEach(([node, type], i) => {
      met(node, i);
      if (type !== null) {
        const to = way[i + 1][0];
        const key = `${node} ${to} ${type}`;
        const told = evidence.has(visit.node) || (steps.get(key)?.told ?? false);
        steps.set(key, { from: node, to, type, hop: i + 1, told });
      }
    });
  }
  const list = [...steps.values()].sort((a, b) => a.hop - b.hop || a.from - b.from || a.to - b.to);
  return {
    hopOf,
    steps: list,
    numHops: list.reduce((most, step) => Math.max(most, step.hop), 0),
    rankOf: new Map(query.evidence.map((e, i) => [e.node, i + 1])),
  };
});
