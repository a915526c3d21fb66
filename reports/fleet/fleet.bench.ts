/**
 * How good packings are, and how long they take: `npm run bench:fleet -- [folder of tables] [scenarios.csv]`. Without arguments 50 made-up models on six kinds of GPUs over 24
 * hours, and with `turns` such fleets whose models are asked for in some hours only, with all of them in memory all day and in turns. With both, ParvaGPU's scenarios (A100 with MIG; a table MODEL.csv each, columns as in `tune fleet`'s tables) on GPUs of one price: the GPUs
 * that are needed, beside a GPU for each model, each alone, and first fit decreasing.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { seeded } from '../../profiler/seeded-random.ts'
import { findGpu } from '../../trials/devices/catalogue.ts'
import { migProfilesOf } from '../../trials/devices/mig.ts'
import { partitionsOf } from '../../trials/devices/mig-placements.ts'
import { percent } from '../format.ts'
import { steadyDemand, tableDemand } from '../plan/demand.ts'
import { parseCsv } from '../report/testing/parsed-csv.ts'
import { planFleet } from './fleet-plan.ts'
import { type GpuKind, type Packing, type Segment, type Turning, whole } from './packing.ts'
import { readSegments } from './segment-table.ts'

const kindOf = (name: string, pricePerHour: number): GpuKind => ({
  name,
  pricePerHour,
  partitions: [[whole], ...partitionsOf(findGpu(name))],
})
const [tables, scenarios] = process.argv.slice(2)
async function published(folder: string, path: string): Promise<void> {
  const gpu = 'A100-80GB'
  const rows = parseCsv(readFileSync(path, 'utf8')).slice(1)
  for (const scenario of new Set(rows.map(([number]) => number))) {
    const models = rows
      .filter(([number]) => number === scenario)
      .map(([, name, rps, limitMs]) => {
        const text = readFileSync(join(folder, `${name}.csv`), 'utf8')
        return { name: name!, segments: readSegments(text, `${name}.csv`, gpu, Number(limitMs)), demand: steadyDemand(Number(rps)) }
      })
    const startMs = performance.now()
    const { atPeaks, compared } = await planFleet(models, [kindOf(gpu, 1)])
    const ms = (performance.now() - startMs).toFixed(0)
    const beside = `a GPU each ${compared.aGpuEach?.gpus ?? '-'}, each alone ${compared.eachAlone.gpus}, first fit decreasing ${compared.firstFit?.gpus}`
    console.log(
      `scenario ${scenario}: ${atPeaks.gpus.length} GPUs, none needs fewer than ${Math.ceil(atPeaks.boundPerHour - 1e-3)}; ${beside}; ${ms} ms`,
    )
  }
}

const kinds = [
  kindOf('A100-40GB', 1.76),
  kindOf('A100-80GB', 2.44),
  kindOf('H100', 5.29),
  kindOf('A30', 0.9),
  kindOf('L4', 0.61),
  kindOf('T4', 0.35),
]
const speeds = [1, 1.15, 2.2, 0.5, 0.3, 0.15]

/** On whole GPUs and all slices, as fast as a part of its fastest; large models on large slices alone. */
function segmentsOf(fastest: number, isLarge: boolean, uniform: () => number): Segment[] {
  return kinds.flatMap(({ name }, k) =>
    [{ name: whole, computeFraction: 1 }, ...migProfilesOf(findGpu(name))].flatMap(({ name: slice, computeFraction }) =>
      isLarge && computeFraction < 0.4
        ? []
        : [{ gpu: name, slice, gpus: 1, rateRps: fastest * speeds[k]! * computeFraction ** (0.6 + 0.5 * uniform()), label: '' }],
    ),
  )
}

const above = ({ pricePerHour, boundPerHour }: Packing) => (boundPerHour > 0 ? pricePerHour / boundPerHour - 1 : 0)

async function madeUp(): Promise<void> {
  const uniform = seeded(3)
  const models = Array.from({ length: 50 }, (_, i) => {
    const fastest = 50 * Math.exp(3 * uniform())
    const isLarge = uniform() < 0.2
    const segments = segmentsOf(fastest, isLarge, uniform)
    const spans = Array.from({ length: 24 }, (_, hour) => ({
      rps: fastest * 4 * uniform() * (1 + Math.sin((hour / 24) * 2 * Math.PI + uniform())),
      seconds: 3600,
    }))
    return { name: `model ${i}`, segments, demand: { spans, what: 'a made-up day' } }
  })
  const startMs = performance.now()
  const { atPeaks, byHour = [], compared } = await planFleet(models, kinds)
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
  const worst = byHour.reduce((most, packing) => Math.max(most, above(packing)), 0)
  console.log(
    `50 models, 6 kinds, 25 packings: ${seconds} s; at the peaks within ${percent(above(atPeaks))} of the best, hours within ${percent(worst)}`,
  )
  console.log(
    `per hour: $${atPeaks.pricePerHour.toFixed(2)}, a GPU each $${compared.aGpuEach?.pricePerHour.toFixed(2)}, each alone $${compared.eachAlone.pricePerHour.toFixed(2)}, first fit decreasing $${compared.firstFit?.pricePerHour.toFixed(2)}`,
  )
}

/** A model of the working day, of the night, or of a few hours, or one that is there all day, three times as busy by day; hours begin at whole ones and end a half before. */
function drawnDay(mostRps: number, uniform: () => number): string {
  const hour = (from: number, to: number) => Math.floor(from + (to - from) * uniform())
  const within = (from: number, to: number) => `${from > 0 ? `0-${from}:0, ` : ''}${from}-${to - 0.5}:${mostRps}, ${to - 0.5}-24:0`
  const shape = uniform()
  if (shape < 0.3) return within(hour(6, 10), hour(17, 21))
  if (shape < 0.55) return within(hour(0, 2), hour(4, 7))
  if (shape < 0.75) {
    const from = hour(0, 20)
    return within(from, from + hour(2, 5))
  }
  const [from, to] = [hour(6, 10), hour(17, 23)]
  return `0-${from}:${mostRps / 3}, ${from}-${to}:${mostRps}, ${to}-24:${mostRps / 3}`
}

async function inTurns(): Promise<void> {
  const uniform = seeded(17)
  const turning: Turning = { loadS: 120, loadFrom: 'as given' }
  const drawn = (count: number) =>
    Array.from({ length: count }, (_, i) => {
      const fastest = 50 * Math.exp(3 * uniform())
      const segments = segmentsOf(fastest, uniform() < 0.2, uniform)
      return { name: `model ${i}`, segments, turning, demand: tableDemand(drawnDay(fastest * (0.1 + 2 * uniform()), uniform)) }
    })
  const fleets = []
  for (let i = 0; i < 20; i++) fleets.push(await planFleet(drawn(8), kinds, 0, 16))
  const saved = fleets.map(({ atPeaks, compared }) => 1 - atPeaks.pricePerHour / compared.unturned!.pricePerHour).sort((a, b) => a - b)
  const proven = fleets.filter(({ atPeaks }) => above(atPeaks) < 1e-4).length
  const mean = saved.reduce((sum, share) => sum + share, 0) / saved.length
  console.log(
    `20 fleets of 8 models: turns by the hours save ${percent(mean)} on the mean (${percent(saved[0]!)} to ${percent(saved.at(-1)!)}) of the same with all models in memory; ${proven} proven, the others within ${percent(Math.max(...fleets.map(({ atPeaks }) => above(atPeaks))))}`,
  )
  const startMs = performance.now()
  const { atPeaks, compared } = await planFleet(drawn(50), kinds)
  const seconds = ((performance.now() - startMs) / 1000).toFixed(1)
  console.log(
    `50 models, 6 kinds, 24 hours: ${seconds} s; $${atPeaks.pricePerHour.toFixed(2)} an hour in turns, within ${percent(above(atPeaks))} of the best, $${compared.unturned!.pricePerHour.toFixed(2)} with all in memory`,
  )
}

if (tables !== undefined && scenarios !== undefined) await published(tables, scenarios)
else if (tables === 'turns') await inTurns()
else await madeUp()
