/**
 * Which contents of GPUs under MPS a programme of counts is given: all of them, or those that may
 * make it cheaper (columns are priced and joined, Gilmore and Gomory 1961).
 */
import type { GpuKind } from './packing.ts'
import { type Programme, solveRelaxed } from './programme.ts'
import type { Content } from './shared-gpus.ts'

export interface SharedColumn {
  readonly name: string
  readonly kind: GpuKind
  readonly content: Content
  /** Of each model on it, requests per second. */
  readonly carries: ReadonlyMap<string, number>
}

/** So many are solved for all at once. */
const mostAtOnce = 1500
const [mostRounds, joinedEachRound] = [60, 400]

/**
 * @param programme with these columns, the same rows whichever they are
 * @returns columns, and where they are not all there are what no packing costs less than: what
 * parts of GPUs would cost
 */
export async function fewContents(
  contents: readonly Content[],
  programme: (shared: readonly SharedColumn[]) => Programme,
): Promise<{ readonly columns: readonly SharedColumn[]; readonly bound?: number }> {
  const all = contents.map((content, i): SharedColumn => {
    const carries = new Map<string, number>()
    for (const { model, segment } of content.sharers)
      carries.set(model, (carries.get(model) ?? 0) + segment.rateRps)
    return { name: `c${i}`, kind: content.kind, content, carries }
  })
  if (all.length <= mostAtOnce) return { columns: all }
  const inRows = coefficientsOf(programme(all))
  const joined = new Set(mostOfEach(all))
  for (let round = 0; round < mostRounds; round++) {
    const relaxed = await solveRelaxed(programme([...joined]))
    // Nothing that is there keeps the rows: what else might is not known.
    if (relaxed === undefined) return { columns: [...joined], bound: 0 }
    const savesOf = ({ name, kind }: SharedColumn) =>
      (inRows.get(name) ?? []).reduce(
        (sum, [factor, row]) => sum + factor * relaxed.rowPrices[row]!,
        0,
      ) - kind.pricePerHour
    const better = all
      .filter((column) => !joined.has(column))
      .map((column) => ({ column, saves: savesOf(column) }))
      .filter(({ saves }) => saves > leastSaving)
      .sort((a, b) => b.saves - a.saves)
    if (better.length === 0) return { columns: [...joined], bound: relaxed.cost }
    for (const { column } of better.slice(0, joinedEachRound)) joined.add(column)
  }
  return { columns: [...joined], bound: 0 }
}

/** Of money an hour: the solver's own tolerance. */
const leastSaving = 1e-7

/** Of each model on each kind, the content that carries most of it for its price. */
function mostOfEach(all: readonly SharedColumn[]): SharedColumn[] {
  const best = new Map<string, SharedColumn>()
  for (const column of all)
    for (const [model, rps] of column.carries) {
      const known = best.get(`${model}\n${column.kind.name}`)
      if (rps > (known?.carries.get(model) ?? 0)) best.set(`${model}\n${column.kind.name}`, column)
    }
  return [...new Set(best.values())]
}

function coefficientsOf({
  rows,
}: Programme): Map<string, (readonly [factor: number, row: number])[]> {
  const found = new Map<string, (readonly [number, number])[]>()
  for (const [row, [terms]] of rows.entries())
    for (const [factor, name] of terms) {
      const known = found.get(name) ?? []
      known.push([factor, row])
      found.set(name, known)
    }
  return found
}
