/** A fleet in words and tables, and as JSON. */
import { money, percent, rate } from '../format.ts'
import { type Block, heading, list, paragraph, table } from '../report/document/blocks.ts'
import type { Compared } from './comparisons.ts'
import type { FleetPlan } from './fleet-plan.ts'
import type { PackedGpu, Packing } from './packing.ts'

const hoursPerMonth = 730

export function fleetBlocks({ atPeaks, byHour, compared, peaksRps }: FleetPlan, models: readonly string[], headroom: number): Block[] {
  const perHour = atPeaks.pricePerHour
  const beside = ([what, other]: readonly [string, Compared | undefined]) =>
    other === undefined
      ? [what, '-', '-', 'a model has no figure on a whole GPU']
      : [what, String(other.gpus), money(other.pricePerHour), other.pricePerHour > 0 ? percent(1 - perHour / other.pricePerHour) : '-']
  return [
    heading(1, 'Fleet'),
    {
      kind: 'paragraph',
      strong: true,
      text: `${gpusOf(atPeaks)} for ${models.length} models: ${money(perHour)}/h, ${money(perHour * hoursPerMonth)} a month; ${boundOf(atPeaks)}`,
    },
    ...list([
      `every model at its highest rate at once${headroom > 0 ? `, ${percent(headroom)} of each replica kept free` : ''}: ${models.map((name, i) => `${name} ${rate(peaksRps[i]!)}`).join(', ')}`,
      'prices of GPUs alone; slices of MIG do not slow one another down, and nothing else shares a GPU',
      'no GPU is spare: the loss of one loses what stood on it',
    ]),
    heading(2, 'GPUs'),
    ...table(
      ['GPUs', 'kind', 'slices'],
      groupsOf(atPeaks.gpus).map(({ count, gpu }) => [String(count), gpu.kind, slotsOf(gpu)]),
      [0],
    ),
    heading(2, 'Models'),
    ...table(
      ['model', 'demand', 'replicas', 'carry', 'busy at the peak'],
      models.map((name, i) => modelRow(name, peaksRps[i]!, atPeaks)),
      [1, 2, 3, 4],
    ),
    heading(2, 'Beside it'),
    ...table(
      ['fleet', 'GPUs', 'per hour', 'saved by this one'],
      (
        [
          ['whole GPUs for each model', compared.aGpuEach],
          ['each model alone on GPUs cut for it', compared.eachAlone],
          ['the best slice of each, first fit decreasing', compared.firstFit],
        ] as const
      ).map(beside),
      [1, 2, 3],
    ),
    ...(byHour ? hourBlocks(byHour, perHour) : []),
  ]
}

export const fleetJson = ({ atPeaks, byHour, hoursRps: _, ...plan }: FleetPlan): string =>
  `${JSON.stringify({ schemaVersion: 1, ...packed(atPeaks), ...plan, ...(byHour && { byHour: byHour.map(packed) }) }, null, 2)}\n`

const packed = ({ gpus, pricePerHour, boundPerHour }: Packing) => ({
  pricePerHour,
  boundPerHour,
  gpus: gpus.map(({ kind, slots }) => ({
    kind,
    slices: slots.map(({ slice, model, segment }) => ({
      slice,
      ...(segment && { model, configuration: segment.label, rateRps: segment.rateRps }),
    })),
  })),
})

/** '3 A100-80GB and 1 L4'. */
function gpusOf({ gpus }: Packing): string {
  const kinds = [...new Set(gpus.map(({ kind }) => kind))]
  return kinds.map((kind) => `${gpus.filter((gpu) => gpu.kind === kind).length} ${kind}`).join(' and ') || 'no GPU'
}

function boundOf({ pricePerHour, boundPerHour }: Packing): string {
  const above = boundPerHour > 0 ? pricePerHour / boundPerHour - 1 : 0
  return above < 1e-4 ? 'no packing of these costs less' : `within ${percent(above)} of the best possible`
}

const slotsOf = ({ slots }: PackedGpu): string =>
  slots
    .map(
      ({ slice, model, segment }) => `${slice}: ${model === undefined ? 'free' : `${model}${segment?.label ? ` (${segment.label})` : ''}`}`,
    )
    .join('; ')

function groupsOf(gpus: readonly PackedGpu[]): { readonly count: number; readonly gpu: PackedGpu }[] {
  const groups = new Map<string, PackedGpu[]>()
  for (const gpu of gpus) {
    const key = `${gpu.kind} ${slotsOf(gpu)}`
    groups.set(key, [...(groups.get(key) ?? []), gpu])
  }
  return [...groups.values()].map((alike) => ({ count: alike.length, gpu: alike[0]! }))
}

function modelRow(name: string, demandRps: number, { gpus }: Packing): string[] {
  const own = gpus.flatMap(({ slots }) => slots.filter(({ model }) => model === name))
  // A replica on several GPUs stands on each of them.
  const replicas = own.reduce((sum, { segment }) => sum + 1 / segment!.gpus, 0)
  const carries = own.reduce((sum, { segment }) => sum + segment!.rateRps / segment!.gpus, 0)
  return [name, rate(demandRps), String(Math.round(replicas)), rate(carries), carries > 0 ? percent(demandRps / carries) : '-']
}

function hourBlocks(byHour: readonly Packing[], perHour: number): Block[] {
  const day = byHour.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0)
  return [
    heading(2, 'By hour'),
    paragraph(
      `Cut anew each hour, and rented by it, the same would be ${money(day)} a day in place of ${money(24 * perHour)}; what cutting and moving costs is not in it.`,
    ),
    ...table(['hours', 'GPUs', 'per hour'], spansOf(byHour), [2]),
  ]
}

/** Hours one after the other with as many GPUs of each kind as one row. */
function spansOf(byHour: readonly Packing[]): string[][] {
  const rows: { from: number; to: number; gpus: string; price: string }[] = []
  for (const [hour, packing] of byHour.entries()) {
    const [gpus, price] = [gpusOf(packing), money(packing.pricePerHour)]
    const last = rows.at(-1)
    if (last?.gpus === gpus) last.to = hour + 1
    else rows.push({ from: hour, to: hour + 1, gpus, price })
  }
  return rows.map(({ from, to, gpus, price }) => [`${from}-${to}`, gpus, price])
}
