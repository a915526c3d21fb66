import { expect, test } from 'vitest'
import { toHtml } from '../document/html.ts'
import { renderSvg } from '../document/svg.ts'
import { parseDayTable } from '../plan/demand.ts'
import { renderFleet } from './fleet-blocks.ts'
import type { FleetPlan } from './fleet-plan.ts'
import { createGpuOption, pictureSize } from './gpu-pictures.ts'
import { type PackedGpu, wholeGpu } from './packing.ts'

const evil = `</title></svg>"'><script>alert(1)</script>`
const segment = (slice: string, share?: number) => ({
  ...{ gpu: 'A100-80GB', slice, gpus: 1, rateRps: 10, label: '' },
  ...(share !== undefined && { share }),
})
const cut: PackedGpu = {
  kind: 'A100-80GB',
  slots: [
    { slice: '3g.40gb', model: evil, segment: segment('3g.40gb') },
    { slice: '2g.20gb' },
    { slice: '1g.10gb', model: 'b', segment: segment('1g.10gb') },
  ],
}
const half = Array.from({ length: 24 }, (_, hour) => (hour < 12 ? 0 : 0.5))
const loadOf = (model: string) => (model === 'b' ? half : Array<number>(24).fill(0.9))
type Drawn = {
  readonly title: readonly { readonly text: string; readonly subtext?: string }[]
  readonly grid: readonly { readonly left: number; readonly width: number }[]
  readonly series: readonly { readonly data: readonly (readonly [number, number])[] }[]
}
const draw = (gpu: PackedGpu): Drawn =>
  createGpuOption(gpu, '2 × A100', [evil, 'b'], 0.1, loadOf) as unknown as Drawn

test('slices are as wide as their part of the memory, shares under MPS as theirs of the threads', () => {
  const gap = 5
  const shared = ['50%', '25%'].map((slice) => ({
    slice,
    model: 'b',
    segment: segment(slice, Number.parseInt(slice, 10) / 100),
  }))
  for (const [slots, parts] of [
    [cut.slots, [1 / 2, 1 / 4, 1 / 8]],
    [shared, [1 / 2, 1 / 4]],
    [[{ slice: wholeGpu }], [1]],
  ] as const) {
    const { grid } = draw({ ...cut, slots })
    expect(grid.map(({ width }) => (width + gap) / pictureSize.width)).toEqual(parts)
    for (const [i, { left }] of grid.slice(1).entries())
      expect(left).toBeCloseTo(grid[i]!.left + grid[i]!.width + gap, 9)
  }
})

test('a slice is filled hour by hour as far as its model is busy, a free one is empty', () => {
  const { title, series } = draw(cut)
  expect(title.map(({ text, subtext }) => [text, subtext])).toEqual([
    ['2 × A100', undefined],
    [evil, '3g.40gb, 90 % busy'],
    ['free', '2g.20gb'],
    ['b', '1g.10gb, 50 % busy'],
  ])
  expect(series).toHaveLength(2)
  expect(series[1]!.data.map(([, share]) => share)).toEqual([...half, 0.5])
})

test('a page draws GPUs that are alike once, whatever their models are called', async () => {
  const plan = {
    atPeaks: { gpus: [cut, cut, { kind: 'L4', slots: [{ slice: wholeGpu }] }], pricePerHour: 5 },
    peaksRps: [9, 5],
    hoursRps: [half, half],
    comparisons: {},
  } as unknown as FleetPlan
  const models = [evil, 'b'].map((name) => ({ name, demand: parseDayTable('0-24:5') }))
  const blocks = await renderFleet(plan, models, 0.1, renderSvg)
  const drawn = blocks.flatMap((block) => (block.kind === 'chart' ? [block] : []))
  expect(drawn.map(({ alt }) => alt)).toEqual([
    `2 × A100-80GB: 3g.40gb: ${evil}; 2g.20gb: free; 1g.10gb: b`,
    '1 × L4: whole: free',
  ])
  const html = toHtml('fleet', blocks)
  expect(html).not.toContain('<script')
  expect(html.match(/<\/svg>/g)).toHaveLength(2)
})
