/** A fleet in words and tables, and as JSON. */
import type { EChartsOption } from 'echarts'
import { grouped } from '../../trials/grouped.ts'
import { type Block, heading, list, paragraph, table } from '../document/blocks.ts'
import { money, percent, rate } from '../format.ts'
import { hoursPerMonth } from '../plan/plan-costs.ts'
import type { Comparison } from './comparisons.ts'
import { formatByHour, groupHours } from './demand-by-hour.ts'
import type { FleetPlan } from './fleet-plan.ts'
import { createGpuOption, pictureSize } from './gpu-pictures.ts'
import { slowdownPerGpu } from './mps-shares.ts'
import {
  computeCarriedRps,
  type FleetModel,
  formatPlace,
  type PackedGpu,
  type Packing,
} from './packing.ts'
import { listPlacements } from './placements.ts'

/** @param chart renders chart options to SVG; absent: no GPU is drawn */
export async function renderFleet(
  plan: FleetPlan,
  models: readonly Pick<FleetModel, 'name'>[],
  headroom: number,
  chart?: (option: EChartsOption, width: number, height: number) => Promise<string>,
): Promise<Block[]> {
  const names = models.map(({ name }) => name)
  const { atPeaks, byHour, peaksRps } = plan
  const { pricePerHour } = atPeaks
  const shared = renderShares(atPeaks)
  const gpuGroups = [
    ...grouped(atPeaks.gpus, (gpu) => `${gpu.kind} ${formatSlots(gpu)}`).values(),
  ].map((gpus) => ({ gpu: gpus[0]!, count: gpus.length, slots: formatSlots(gpus[0]!) }))
  const draw = async ({ gpu, count, slots }: (typeof gpuGroups)[number]): Promise<Block> => {
    const title = `${count} × ${gpu.kind}`
    const getLoad = (name: string) => computeLoadByHour(plan, name, names.indexOf(name), headroom)
    const option = createGpuOption(gpu, title, names, headroom, getLoad)
    const svg = await chart!(option, pictureSize.width, pictureSize.height)
    return { kind: 'chart', alt: `${title}: ${slots}`, svg }
  }
  return [
    heading(1, 'Fleet'),
    {
      kind: 'paragraph',
      strong: true,
      text: `${formatGpus(atPeaks)} for ${names.length} ${names.length === 1 ? 'model' : 'models'}: ${money(pricePerHour)}/h, ${money(pricePerHour * hoursPerMonth)} a month; ${formatBound(atPeaks)}`,
    },
    ...list([
      `sized for the highest rates of all models at once${headroom > 0 ? `, with ${percent(headroom)} headroom per replica` : ''}: ${names.map((name, i) => `${name} ${rate(peaksRps[i]!)}`).join(', ')}`,
      `prices cover only GPUs; MIG slices do not slow each other down${shared.length > 0 ? ', but neighbours under MPS do (see Shared by MPS)' : ''}`,
      'no redundancy: if a GPU fails, its replicas fail',
    ]),
    heading(2, 'GPUs'),
    ...table(
      ['GPUs', 'kind', 'slices'],
      gpuGroups.map(({ gpu, count, slots }) => [String(count), gpu.kind, slots]),
      [0],
    ),
    ...(chart && gpuGroups.length > 0
      ? [
          paragraph(
            `The width of a slice is its share of the GPU's memory, the width of an MPS share its share of the threads. The fill shows how busy its model is in each hour of the day, the number its busiest hour.${headroom > 0 ? ` The headroom is above the dashed line at ${percent(1 - headroom)}.` : ''}`,
          ),
          ...(await Promise.all(gpuGroups.map(draw))),
        ]
      : []),
    heading(2, 'Models'),
    ...table(
      ['model', 'demand', 'replicas', 'capacity', 'busy at the peak'],
      names.map((name, i) => createModelRow(name, peaksRps[i]!, atPeaks)),
      [1, 2, 3, 4],
    ),
    ...shared,
    ...renderComparisons(plan),
    ...(byHour ? renderHours(plan, byHour, names) : []),
  ]
}

function renderComparisons({ atPeaks: { pricePerHour }, comparisons }: FleetPlan): Block[] {
  const fleets: readonly (readonly [name: string, fleet: Comparison | undefined])[] = [
    ['whole GPUs for each model', comparisons.wholeGpus],
    ['separate GPUs for each model, partitioned for it', comparisons.modelsApart],
    ['first-fit decreasing with the best slice of each model', comparisons.firstFitDecreasing],
    ...(comparisons.withoutMps ? [['without MPS', comparisons.withoutMps] as const] : []),
  ]
  return [
    heading(2, 'Compared with'),
    ...table(
      ['fleet', 'GPUs', 'per hour', 'saving'],
      fleets.map(([name, fleet]) => [
        name,
        fleet ? String(fleet.gpus) : '-',
        fleet ? money(fleet.pricePerHour) : '-',
        fleet === undefined
          ? 'a model was not measured there'
          : fleet.pricePerHour > 0
            ? percent(1 - pricePerHour / fleet.pricePerHour)
            : '-',
      ]),
      [1, 2, 3],
    ),
  ]
}

/** Models on shares of GPUs; empty if no GPU is shared. */
function renderShares({ gpus }: Packing): Block[] {
  const rows = gpus.flatMap(({ slots }) =>
    slots.flatMap(({ model, segment }) =>
      model !== undefined && segment?.unsharedRps !== undefined
        ? [
            [
              model,
              formatPlace(segment),
              rate(segment.unsharedRps),
              rate(segment.rateRps),
              percent(segment.unsharedRps / segment.rateRps - 1),
            ],
          ]
        : [],
    ),
  )
  if (rows.length === 0) return []
  return [
    heading(2, 'Shared by MPS'),
    paragraph(
      `Neighbours under MPS slow a model down. The plan assumes ${percent(slowdownPerGpu)} per whole GPU that the neighbours use, so ${percent(slowdownPerGpu / 2)} next to a half. That is the mean of 24 measured pairs plus two standard deviations; your models were not measured together.`,
    ),
    ...table(
      ['model', 'on', 'capacity alone', 'capacity planned', 'slower by'],
      [...grouped(rows, (row) => row.join('\n')).values()].map(([row]) => row!),
      [2, 3, 4],
    ),
  ]
}

/** Requests over what all replicas of a model carry, 0-1, in each hour of the day. */
function computeLoadByHour(
  { atPeaks, hoursRps }: FleetPlan,
  model: string,
  index: number,
  headroom: number,
): number[] {
  const carried = computeCarriedRps(model, atPeaks.gpus)
  return hoursRps[index]!.map((rps) => (rps === 0 ? 0 : (rps * (1 - headroom)) / carried))
}

function createModelRow(name: string, demandRps: number, packing: Packing): string[] {
  const slots = packing.gpus.flatMap((gpu) => gpu.slots).filter(({ model }) => model === name)
  const replicas = slots.reduce((sum, { segment }) => sum + 1 / segment!.gpus, 0)
  const carried = computeCarriedRps(name, packing.gpus)
  return [
    name,
    rate(demandRps),
    String(Math.round(replicas)),
    rate(carried),
    carried > 0 ? percent(demandRps / carried) : '-',
  ]
}

function renderHours(
  { atPeaks, hoursRps }: FleetPlan,
  byHour: readonly Packing[],
  names: readonly string[],
): Block[] {
  const pricePerDay = byHour.reduce((sum, { pricePerHour }) => sum + pricePerHour, 0)
  const placements = listPlacements(atPeaks.gpus, (model) => hoursRps[names.indexOf(model)]!)
  return [
    heading(2, 'By hour'),
    paragraph(
      `If the GPUs were rented and partitioned anew every hour, they would cost ${money(pricePerDay)} a day instead of ${money(24 * atPeaks.pricePerHour)}, excluding the cost of repartitioning and moving.`,
    ),
    ...table(
      ['hours', 'GPUs', 'per hour'],
      groupHours(byHour, formatGpus).map(({ from, to, value }) => [
        `${from}-${to}`,
        formatGpus(value),
        money(value.pricePerHour),
      ]),
      [2],
    ),
    paragraph(
      'On the GPUs for the highest rates, each hour needs these replicas; the other slices are free for other work.',
    ),
    ...table(
      ['model', 'on', 'replicas by hours'],
      placements.map(({ model, segment, replicas, byHour: counts }) => [
        model,
        formatPlace(segment),
        formatByHour(counts ?? Array<number>(24).fill(replicas)),
      ]),
    ),
  ]
}

export function toFleetJson({ atPeaks, byHour, hoursRps: _, ...plan }: FleetPlan): string {
  const document = {
    schemaVersion: 1,
    ...toPackingJson(atPeaks),
    ...plan,
    ...(byHour && { byHour: byHour.map(toPackingJson) }),
  }
  return `${JSON.stringify(document, null, 2)}\n`
}

const toPackingJson = ({ gpus, pricePerHour, boundPerHour }: Packing) => ({
  pricePerHour,
  boundPerHour,
  gpus: gpus.map(({ kind, slots }) => ({
    kind,
    slices: slots.map(({ slice, model, segment }) => ({
      slice,
      ...(segment && {
        model,
        configuration: segment.label,
        rateRps: segment.rateRps,
        ...(segment.unsharedRps && { unsharedRps: segment.unsharedRps }),
      }),
    })),
  })),
})

/** '3 A100-80GB and 1 L4' */
function formatGpus({ gpus }: Packing): string {
  const kinds = [...grouped(gpus, ({ kind }) => kind)]
  return kinds.map(([kind, alike]) => `${alike.length} ${kind}`).join(' and ') || 'no GPU'
}

function formatBound({ pricePerHour, boundPerHour }: Packing): string {
  if (pricePerHour > 0 && !(boundPerHour > 0))
    return 'the solver found no lower bound in time: raise --solver-time'
  const relativeGap = pricePerHour > 0 ? pricePerHour / boundPerHour - 1 : 0
  return relativeGap < 1e-4
    ? 'proven: no cheaper packing exists'
    : `within ${percent(relativeGap)} of the best possible`
}

/** '2 × 3g.40gb: bert (batch 8); 1g.10gb: free' */
const formatSlots = ({ slots }: PackedGpu): string => {
  const texts = slots.map(({ slice, model, segment }) =>
    model === undefined
      ? `${slice}: free`
      : `${slice}: ${model}${segment?.label ? ` (${segment.label})` : ''}`,
  )
  return [...grouped(texts, (text) => text)]
    .map(([text, alike]) => (alike.length === 1 ? text : `${alike.length} × ${text}`))
    .join('; ')
}
