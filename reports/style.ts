/**
 * Colours, tables and paper: what the dashboard, its charts and the offline report share. Each
 * colour has a value for light and one for dark.
 */
export const colours = {
  ground: ['#f5f6f8', '#10151c'],
  surface: ['#ffffff', '#171d26'],
  text: ['#1c2430', '#e4e8ee'],
  muted: ['#5b6675', '#98a3b3'],
  line: ['#d9dee5', '#2b3441'],
  accent: ['#0b5cad', '#6cb2ff'],
  warn: ['#b3261e', '#ff8a80'],
  good: ['#00694b', '#5fd3a8'],
  caution: ['#8a4b00', '#f0b35a'],
} as const

const writeTokens = (): string =>
  Object.entries(colours)
    .map(([name, [light, dark]]) => `  --${name}: light-dark(${light}, ${dark});\n`)
    .join('')

/** Writes the beginning of every style sheet. */
export const writeSharedStyle = (): string => `:root {
  color-scheme: light dark;
${writeTokens()}  --radius: 8px;
}
table {
  border-collapse: collapse;
  font-variant-numeric: tabular-nums;
}
th, td {
  text-align: left;
  padding: 5px 12px 5px 0;
  border-bottom: 1px solid var(--line);
  vertical-align: top;
}
th {
  font-weight: 600;
  color: var(--muted);
}
.n {
  text-align: right;
}
.wide {
  overflow: auto;
}
@page {
  size: A4;
  margin: 14mm 12mm;
}
@media print {
  :root:root:root {
    color-scheme: light;
    --ground: #fff;
    --text: #000;
    --muted: #444;
    --line: #bbb;
  }
  figure, tr, table {
    break-inside: avoid;
  }
}
`
