// Rectangles whose areas are shares, squarified (Bruls, Huizing, van Wijk 2000).

export interface Tile {
  name: string;
  value: number;
  x: number;
  y: number;
  w: number;
  h: number;
}

export function squarified(items: { name: string; value: number }[], width: number, height: number): Tile[] {
  const total = items.reduce((sum, item) => sum + item.value, 0);
  if (!(total > 0)) return [];
  const area = (width * height) / total;
  const left = [...items].filter((i) => i.value > 0).sort((a, b) => b.value - a.value);
  const tiles: Tile[] = [];
  let [x, y, w, h] = [0, 0, width, height];
  while (left.length) {
    const side = Math.min(w, h);
    let count = 1;
    while (count < left.length && worst(left.slice(0, count + 1), area, side) <= worst(left.slice(0, count), area, side)) count++;
    const row = left.splice(0, count);
    const thick = (row.reduce((s, i) => s + i.value, 0) * area) / (side || 1);
    let along = 0;
    for (const item of row) {
      const length = (item.value * area) / (thick || 1);
      tiles.push(w >= h ? { ...item, x, y: y + along, w: thick, h: length } : { ...item, x: x + along, y, w: length, h: thick });
      along += length;
    }
    if (w >= h) [x, w] = [x + thick, w - thick];
    else [y, h] = [y + thick, h - thick];
  }
  return tiles;
}

/** The worst ratio of sides when some items share a strip. */
function worst(row: { value: number }[], area: number, side: number): number {
  const sum = row.reduce((s, i) => s + i.value, 0) * area;
  const thick = sum / (side || 1);
  return Math.max(...row.map((i) => Math.max((thick * thick) / (i.value * area), (i.value * area) / (thick * thick))));
}
