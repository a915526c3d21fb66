/** Models side by side under MPS, in words and a table: who slows whom, how that is known, and which pairs are worth measuring. */
import { percent, rate } from '../format.ts'
import { type Block, heading, paragraph, table } from '../report/document/blocks.ts'
import type { PackedGpu, Packing, Segment } from './packing.ts'

interface Beside {
  readonly kind: string
  readonly model: string
  readonly segment: Segment
}

/** Those that are alike once. */
function besideOn(gpus: readonly PackedGpu[]): Beside[] {
  const all = gpus.flatMap(({ kind, slots }) =>
    slots.flatMap(({ model, segment }) => (model !== undefined && segment?.beside ? [{ kind, model, segment }] : [])),
  )
  return [...new Map(all.map((one) => [[one.kind, one.model, one.segment.slice, ...one.segment.beside!.others].join('\n'), one])).values()]
}

export const sharesGpus = ({ gpus }: Packing): boolean => besideOn(gpus).length > 0

/** Contents of which some slowdown is not measured: of those that the packing wants, no others. */
export function unmeasuredContents({ gpus }: Packing): PackedGpu[] {
  const wanting = gpus.filter(({ slots }) =>
    slots.some(({ segment }) => segment?.beside && segment.beside.how !== 'measured' && segment.beside.how !== 'emulated'),
  )
  return [
    ...new Map(wanting.map((gpu) => [[gpu.kind, ...gpu.slots.map(({ model, slice }) => `${model} ${slice}`)].join('\n'), gpu])).values(),
  ]
}

const howSaid = {
  assumed: 'assumed',
  learned: 'learned from other pairs',
  measured: 'measured',
  emulated: 'measured on an emulated GPU',
} as const

export function sharingBlocks(packing: Packing): Block[] {
  const beside = besideOn(packing.gpus)
  if (beside.length === 0) return []
  const open = unmeasuredContents(packing)
  const said = open.map(({ kind, slots }) => `${slots.map(({ model, slice }) => `${model} (${slice})`).join(' with ')} on ${kind}`)
  return [
    heading(2, 'Side by side'),
    paragraph(
      `Under MPS a model gets slower beside others: planned for at the upper end of what is known of it. ${open.length === 0 ? 'All of it was measured.' : `Not measured, and worth it, for the packing rests on them: ${said.join('; ')}. --measure-pairs FILE measures them, or name a file that did: pairs: in the fleet file.`}`,
    ),
    ...table(
      ['model', 'on', 'beside', 'carries alone', 'carries there', 'slower, expected', 'planned for', 'which is'],
      beside.map(({ kind, model, segment: { slice, rateRps, beside: of } }) => [
        model,
        `${slice} of ${kind}`,
        of!.others.join(', '),
        rate(of!.aloneRps),
        rate(rateRps),
        percent(of!.expected - 1),
        percent(of!.upper - 1),
        howSaid[of!.how],
      ]),
      [3, 4, 5, 6],
    ),
  ]
}
