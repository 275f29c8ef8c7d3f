// Where everything is. Zones are bands; in a band clients and keeper members are on the left, brokers to
// their right, and each broker's log runs on from there. All logs start at the same place, so that one offset is
// one column, and what differs can be seen by looking down.

const WIDE = {
  left: 84, broker: 300, log: 362, // where the columns are
  cellMax: 58, cellMin: 28, cellHeight: 38,
  radius: 21, bow: 36,
  row: 96, leftRow: 46, padding: 10, label: 18,
};
const MIDDLE = { ...WIDE, left: 62, broker: 216, log: 264, cellMax: 46, cellHeight: 34, row: 90, bow: 26 };
const NARROW = {
  left: 32, broker: 112, log: 148,
  cellMax: 34, cellMin: 13, cellHeight: 28,
  radius: 15, bow: 14,
  row: 80, leftRow: 40, padding: 6, label: 20,
};
const CROWDED = { row: 76, padding: 4, label: 8 };
// As small as everything can be and still be read: for windows that are not high.
const LOW = { row: 64, leftRow: 34, padding: 2, label: 4, cellHeight: 26, radius: 15 };
// Logs below each other on one broker: the marks of one may not touch those of the next.
const STACKED = { row: 68, padding: 3 };
const SHRINKING = 8;

// For a width, and if possible no higher than `room`.
export function layoutOf(cast, width, longest, room = Infinity) {
  let layout = null;
  for (let shrunk = 0; shrunk <= SHRINKING; shrunk += 1) {
    layout = laidOut(cast, width, longest, shrunk / SHRINKING);
    if (layout.height <= room) break;
  }
  return layout;
}

// `low` is between 0, as is good to look at, and 1, as low as possible.
function laidOut(cast, width, longest, low) {
  const size = { ...(width < 480 ? NARROW : width < 760 ? MIDDLE : WIDE) };
  if (cast.brokers.length > 4) Object.assign(size, CROWDED, { cellHeight: Math.min(size.cellHeight, 30) });
  const stacked = cast.brokers.some(({ id }) => topicsOn(cast, id).length > 1) ? STACKED : {};
  for (const [name, least] of Object.entries({ ...LOW, ...stacked })) size[name] -= Math.max(size[name] - least, 0) * low;
  const cell = Math.max(size.cellMin, Math.min(size.cellMax, (width - size.log - 30) / Math.max(longest, 1)));
  const places = new Map();
  const rows = new Map();
  const zones = [];
  let y = 0;
  for (const zone of cast.zones) {
    const brokers = cast.brokers.filter((broker) => broker.zone === zone);
    const left = [
      ...cast.clients.filter((client) => client.zone === zone).map((client) => client.name),
      ...cast.keepers.filter((keeper) => keeper.zone === zone).map((keeper) => keeper.name),
    ];
    const replicas = brokers.map(({ id }) => topicsOn(cast, id));
    const right = replicas.reduce((sum, topics) => sum + Math.max(topics.length, 1) * size.row, 0);
    const height = Math.max(right, left.length * size.leftRow) + size.padding + size.label;
    const middle = y + size.label + (height - size.label - size.padding) / 2;
    zones.push({ name: zone, y, height });
    left.forEach((name, index) => {
      places.set(name, { x: size.left, y: middle + (index - (left.length - 1) / 2) * size.leftRow });
    });
    let top = middle - right / 2;
    brokers.forEach(({ id }, index) => {
      const own = Math.max(replicas[index].length, 1) * size.row;
      places.set(String(id), { x: size.broker, y: top + own / 2 });
      replicas[index].forEach((topic, number) => rows.set(`${topic}/${id}`, { x: size.log, y: top + (number + 0.5) * size.row }));
      top += own;
    });
    y += height + 8;
  }
  const needed = size.log + longest * cell + 30;
  return { ...size, cell, places, rows, zones, width: Math.max(width, needed), height: y - 8, narrow: width < 480 };
}

function topicsOn(cast, broker) {
  return cast.topics.map((topic, index) => (topic.replicas.includes(broker) ? index : -1)).filter((index) => index >= 0);
}

// The line of a link as an SVG path, from one node to the other.
export function linkPath(layout, from, to) {
  const a = layout.places.get(String(from)), b = layout.places.get(String(to));
  if (!a || !b) return null;
  if (a.x === b.x) {
    // Brokers stand in one column: their links bow out to the left, the further apart the wider.
    const side = a.x === layout.broker ? -1 : 1;
    const bow = layout.bow + Math.min(Math.abs(a.y - b.y) / 6, layout.narrow ? 36 : 92);
    const x = a.x + side * layout.radius;
    return `M ${x} ${a.y} C ${x + side * bow} ${a.y}, ${x + side * bow} ${b.y}, ${x} ${b.y}`;
  }
  const rightward = a.x < b.x ? 1 : -1;
  const startX = a.x + rightward * (a.x === layout.broker ? layout.radius : layout.narrow ? 17 : 40);
  const endX = b.x - rightward * (b.x === layout.broker ? layout.radius : layout.narrow ? 17 : 40);
  const middle = (startX + endX) / 2;
  return `M ${startX} ${a.y} C ${middle} ${a.y}, ${middle} ${b.y}, ${endX} ${b.y}`;
}
