/**
 * Draws a scatter plot in characters: price per hour (x, log), capacity (y, log), with the Pareto
 * front.
 */
import { money, significant } from '../../../reports/format.ts'
import { glyph, type Style } from './glyphs.ts'

interface PlotPoint {
  readonly pricePerHour: number
  readonly capacityRps: number
}

/** Points that no other point dominates in price and capacity. */
export function findFront(points: readonly PlotPoint[]): PlotPoint[] {
  return points.filter(
    (p) =>
      !points.some(
        (q) =>
          q.pricePerHour <= p.pricePerHour &&
          q.capacityRps >= p.capacityRps &&
          (q.pricePerHour < p.pricePerHour || q.capacityRps > p.capacityRps),
      ),
  )
}

/** `height` lines of plot and two of axis; empty for fewer than two points. */
export function drawScatter(
  points: readonly PlotPoint[],
  size: { width: number; height: number },
  best: PlotPoint | undefined,
  style: Style,
): string[] {
  const serving = points.filter((p) => p.capacityRps > 0 && p.pricePerHour > 0)
  if (serving.length < 2) return []
  const range = (values: number[]): [number, number] => {
    const low = Math.log(Math.min(...values))
    const high = Math.log(Math.max(...values))
    return high > low ? [low, high] : [low - 0.5, high + 0.5]
  }
  const [x0, x1] = range(serving.map((p) => p.pricePerHour))
  const [y0, y1] = range(serving.map((p) => p.capacityRps))
  const labels = [Math.exp(y1), Math.exp(y0)].map((v) => significant(Number(v.toPrecision(3))))
  const gutter = Math.max(...labels.map((l) => l.length)) + 1
  const width = Math.max(10, size.width - gutter - 1)
  const grid = Array.from({ length: size.height }, () => new Array<string>(width).fill(' '))
  const front = new Set(findFront(serving))
  const put = (p: PlotPoint, mark: string) => {
    const column = Math.round(((Math.log(p.pricePerHour) - x0) / (x1 - x0)) * (width - 1))
    const row =
      size.height - 1 - Math.round(((Math.log(p.capacityRps) - y0) / (y1 - y0)) * (size.height - 1))
    const line = grid[row]
    if (line) line[column] = mark
  }
  for (const p of serving) if (!front.has(p)) put(p, glyph('point', style))
  for (const p of front) put(p, glyph('front', style))
  if (best) put(best, glyph('best', style))
  const vertical = glyph('vertical', style)
  const lines = grid.map((line, i) => {
    const label = i === 0 ? labels[0] : i === size.height - 1 ? labels[1] : ''
    return `${(label ?? '').padStart(gutter - 1)} ${vertical}${line.join('')}`.trimEnd()
  })
  const minLabel = `${money(Number(Math.exp(x0).toPrecision(3)))}/h`
  const right = `${money(Number(Math.exp(x1).toPrecision(3)))}/h`
  return [
    ...lines,
    `${' '.repeat(gutter)}${glyph('corner', style)}${glyph('horizontal', style).repeat(width)}`,
    `${' '.repeat(gutter + 1)}${minLabel}${right.padStart(Math.max(1, width - minLabel.length))}`,
  ]
}
