import { expect, test } from 'vitest'
import { pictureGpus } from './gpu-pictures.ts'
import { type PackedGpu, whole } from './packing.ts'

const evil = `</title></svg>"'><script>alert(1)</script>`
const segment = (slice: string, gpus = 1) => ({
  gpu: 'A100-80GB',
  slice,
  gpus,
  rateRps: 10,
  label: '',
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
const drawn = (gpus: readonly PackedGpu[], load: (model: string) => readonly number[] = loadOf) =>
  pictureGpus(gpus, [evil, 'b'], 0.1, load).flatMap((block) =>
    block.kind === 'chart' ? [block] : [],
  )
const numbers = (svg: string, pattern: RegExp) =>
  [...svg.matchAll(pattern)].map(([, number]) => Number(number))

test('slices are as wide as their part of the memory, what is free and what no slice can have too', () => {
  const [{ svg, alt, themed }] = drawn([cut]) as [ReturnType<typeof drawn>[number]]
  expect(numbers(svg, /<rect class="frame[^"]*" x="[\d.]+" y="\d+" width="([\d.]+)"/g)).toEqual([
    960 / 2 - 4,
    960 / 4 - 4,
    960 / 8 - 4,
    960 / 8 - 4,
  ])
  expect(svg).toContain('>no slice fits<')
  expect(svg).toContain('>free<')
  expect(alt).toBe(
    `A100-80GB 1: 3g.40gb ${evil}, 90 % busy at most; 2g.20gb free; 1g.10gb b, 50 % busy at most`,
  )
  expect(themed).toBe(true)
  expect(svg).not.toContain('<script')
  expect(svg.match(/<\/svg>/g)).toHaveLength(1)
})

test('a slice is filled hour by hour as far as it is busy; the GPU says so by parts of its memory', () => {
  const [{ svg }] = drawn([cut]) as [ReturnType<typeof drawn>[number]]
  const [, last] = [...svg.matchAll(/<path fill="#\w+" d="([^"]+)"/g)].map(([, d]) => d!)
  // The bottom is at 86, half of 52 above it.
  expect(last!.match(/V[\d.]+/g)!.slice(0, 24)).toEqual([
    ...Array(12).fill('V86'),
    ...Array(12).fill('V60'),
  ])
  expect(svg).toContain('>51 % busy at 12 o&#39;clock, 48 % over the day<')
  const [steady] = drawn([cut], () => Array<number>(24).fill(0.8))
  expect(steady!.svg).toContain('>50 % busy<')
})

test('each GPU has its number; of many those alike are drawn once', () => {
  const other: PackedGpu = {
    kind: 'L4',
    slots: [{ slice: whole, model: 'b', segment: { ...segment(whole, 2), gpu: 'L4' } }],
  }
  expect(drawn([cut, other, cut]).map(({ alt }) => alt.split(':')[0])).toEqual([
    'A100-80GB 1',
    'L4 1',
    'A100-80GB 2',
  ])
  expect(
    drawn([...Array<PackedGpu>(60).fill(cut), other]).map(({ alt }) => alt.split(':')[0]),
  ).toEqual(['A100-80GB × 60', 'L4 1'])
  expect(drawn([other])[0]!.svg).toContain('one of the 2 GPUs of a replica')
  expect(pictureGpus([], [], 0, loadOf)).toEqual([])
})
