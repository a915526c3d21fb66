/**
 * Models side by side under MPS, in words and a table: who slows whom, how that is known, and which
 * pairs are worth measuring.
 */
import { percent, rate } from '../format.ts'
import { type Block, heading, paragraph, table } from '../report/document/blocks.ts'
import type { Slowdown } from './interference.ts'
import type { PackedGpu, Packing, Segment } from './packing.ts'

interface Beside {
  readonly kind: string
  readonly model: string
  readonly segment: Segment
}

/** Those that are alike once. */
function besideOn(gpus: readonly PackedGpu[]): Beside[] {
  const all = gpus.flatMap(({ kind, slots }) =>
    slots.flatMap(({ model, segment }) =>
      model !== undefined && segment?.beside ? [{ kind, model, segment }] : [],
    ),
  )
  return [
    ...new Map(
      all.map((one) => [
        [one.kind, one.model, one.segment.slice, ...one.segment.beside!.others].join('\n'),
        one,
      ]),
    ).values(),
  ]
}

export const sharesGpus = ({ gpus }: Packing): boolean => besideOn(gpus).length > 0

/** Contents of which some slowdown is not measured: of those that the packing wants, no others. */
export function unmeasuredContents({ gpus }: Packing): PackedGpu[] {
  const wanting = gpus.filter(({ slots }) =>
    slots.some(({ segment }) => segment?.beside && segment.beside.how !== 'measured'),
  )
  return [
    ...new Map(
      wanting.map((gpu) => [
        [gpu.kind, ...gpu.slots.map(({ model, slice }) => `${model} ${slice}`)].join('\n'),
        gpu,
      ]),
    ).values(),
  ]
}

const howSaid = ({ how, emulated }: Slowdown): string =>
  `${how === 'learned' ? 'learned from other pairs' : how}${emulated ? ', on an emulated GPU' : ''}`

function knownSaid(packing: Packing, beside: readonly Beside[]): string {
  const open = unmeasuredContents(packing)
  if (open.length > 0) {
    const said = open.map(
      ({ kind, slots }) =>
        `${slots.map(({ model, slice }) => `${model} (${slice})`).join(' with ')} on ${kind}`,
    )
    return `Not measured, and worth it, for the packing rests on them: ${said.join('; ')}. --measure-pairs FILE measures them, or name a file of what was: pairs: in the fleet file.`
  }
  return `All of it was measured${beside.some(({ segment }) => segment.beside!.emulated) ? ', on emulated GPUs where that is said' : ''}.`
}

export function sharingBlocks(packing: Packing): Block[] {
  const beside = besideOn(packing.gpus)
  if (beside.length === 0) return []
  return [
    heading(2, 'Side by side'),
    paragraph(
      `Under MPS a model gets slower beside others: planned for at the upper end of what is known of it. ${knownSaid(packing, beside)}`,
    ),
    ...table(
      [
        'model',
        'on',
        'beside',
        'carries alone',
        'carries there',
        'slower, expected',
        'planned for',
        'which is',
      ],
      beside.map(({ kind, model, segment: { slice, rateRps, beside: of } }) => [
        model,
        `${slice} of ${kind}`,
        of!.others.join(', '),
        rate(of!.aloneRps),
        rate(rateRps),
        percent(of!.expected - 1),
        percent(of!.upper - 1),
        howSaid(of!),
      ]),
      [3, 4, 5, 6],
    ),
  ]
}
