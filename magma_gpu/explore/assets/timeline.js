// When things were said: bars by time, two handles that choose a part, and marks where the answer's evidence lies.

const times = data.events.time.filter((t) => t !== null);
const firstTime = times.reduce((a, b) => Math.min(a, b), Infinity);
const lastTime = Math.max(times.reduce((a, b) => Math.max(a, b), -Infinity), firstTime + 1);
const bars = byId('bars');
const handles = [byId('from'), byId('to')];
const at = (value) => firstTime + ((lastTime - firstTime) * value) / 1000;

if (!times.length) byId('time').hidden = true;

function paintBars() {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [bars.clientWidth, bars.clientHeight];
  if (!width) return;
  bars.width = width * ratio;
  bars.height = height * ratio;
  const ctx = bars.getContext('2d');
  ctx.scale(ratio, ratio);
  const size = Math.max(20, Math.min(160, Math.floor(width / 6)));
  const counts = new Array(size).fill(0);
  for (const t of times) counts[Math.min(size - 1, Math.floor(((t - firstTime) / (lastTime - firstTime)) * size))]++;
  const most = Math.max(...counts);
  const step = width / size;
  counts.forEach((count, i) => {
    if (!count) return;
    const middle = firstTime + ((i + 0.5) / size) * (lastTime - firstTime);
    const inside = !state.range || (middle >= state.range[0] && middle <= state.range[1]);
    ctx.fillStyle = inside ? faint(colors.temporal, 0.75) : faint(colors.temporal, 0.22);
    // The root keeps a quiet week visible beside a loud one.
    const tall = Math.max(3, Math.sqrt(count / most) * (height - 6));
    ctx.beginPath();
    ctx.roundRect(i * step + 0.5, height - tall, Math.max(1.5, step - 1), tall, 1.5);
    ctx.fill();
  });
  if (state.question >= 0) {
    const { hopOf, rankOf } = walks[state.question];
    for (const [n, hop] of hopOf) {
      if (!rankOf.has(n) || hop > state.hop || data.events.time[n] === null) continue;
      const x = ((data.events.time[n] - firstTime) / (lastTime - firstTime)) * width;
      ctx.fillStyle = colors.causal;
      ctx.fillRect(Math.min(width - 2, Math.max(0, x - 1)), 0, 2, 7);
    }
  }
  if (isEvent(state.selected) && state.selected >= 0 && data.events.time[state.selected] !== null) {
    const x = ((data.events.time[state.selected] - firstTime) / (lastTime - firstTime)) * width;
    ctx.fillStyle = colors.accent;
    ctx.fillRect(Math.min(width - 2, Math.max(0, x - 1)), 0, 2, height);
  }
}

function setRange() {
  const [a, b] = handles.map((h) => Number(h.value));
  // The handle that was moved last may not pass the other.
  const [low, high] = [Math.min(a, b), Math.max(a, b)];
  state.range = low === 0 && high === 1000 ? null : [at(low), at(high)];
  byId('from-text').textContent = day(Math.round(at(low)));
  byId('to-text').textContent = day(Math.round(at(high)));
  byId('all-time').hidden = !state.range;
  changed();
}

for (const handle of handles) handle.addEventListener('input', setRange);
byId('all-time').addEventListener('click', () => {
  handles[0].value = 0;
  handles[1].value = 1000;
  setRange();
});
new ResizeObserver(paintBars).observe(bars);
followers.push(paintBars);
if (times.length) setRange();
