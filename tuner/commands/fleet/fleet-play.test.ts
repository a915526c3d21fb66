/**
 * A fleet as planned, played: every placement in virtual time under its share of the traffic, seen
 * by a client that shares no code with the tuner.
 */
import { expect, test } from 'vitest'
import type { Target } from '../../../profiler/types.ts'
import { simulatedBackend } from '../../backends/simulated-backend.ts'
import { CliBox } from '../../testing/run-cli.ts'
import { WarmCli } from '../../testing/warm-cli.ts'
import { arrivalsOf, choose, randomOf, summaryOf } from './testing/plain-client.ts'
import { type PlayedModel, playedFleet } from './testing/played-fleet.ts'

const day = { speed: 60, hours: 24 }

/**
 * Placed so, every request of a day of the trace goes to one of the replicas, as often as it can
 * carry.
 */
async function played(
  { experiment, placements, trace, ...slo }: PlayedModel,
  random: () => number,
) {
  const { launcher } = simulatedBackend(experiment.experiment)
  const weights = placements.map(({ rateRps }) => ({ weight: rateRps }))
  const shares = placements.map((): { atMs: number; traceS: number }[] => [])
  for (const arrival of arrivalsOf(trace, day, random))
    shares[choose(weights, random)]!.push(arrival)
  const answers = []
  for (const [i, { configuration }] of placements.entries()) {
    const { target } = await launcher.launch(configuration, i + 1, new AbortController().signal)
    const arrivals = { kind: 'trace', atMs: shares[i]!.map(({ atMs }) => atMs) } as const
    const durationS = (day.hours * 3600) / day.speed
    const { latencyMs } = serverOf(target).play({
      kind: 'open',
      rateRps: arrivals.atMs.length / durationS,
      arrivals,
      durationS,
      seed: 5,
    })
    expect(latencyMs.length).toBe(arrivals.atMs.length)
    answers.push(
      ...shares[i]!.map(({ traceS }, k) => ({
        ms: Number.isNaN(latencyMs[k]!) ? undefined : latencyMs[k]!,
        traceS,
      })),
    )
  }
  return summaryOf(answers, slo)
}

function serverOf(target: Target) {
  if (target.kind !== 'virtual') throw new TypeError('not a predictor in virtual time')
  return target.server
}

test('four models on two GPUs: every SLO is kept over a day, the money is as said; at half as much again as is carried none is kept', async () => {
  const tune = new WarmCli()
  const box = new CliBox()
  try {
    const fleet = await playedFleet(box.folder, (args) => tune.run(box, args))
    expect(fleet.gpus.length).toBe(2)
    expect(fleet.countedPerHour).toBeCloseTo(fleet.saidPerHour, 9)
    expect(fleet.saidPerHour).toBeLessThan(4 * 0.9)
    // Two models share a GPU at least, and no slice is given twice.
    const placed = fleet.models.flatMap(({ placements }) => placements)
    expect(placed.length).toBeLessThanOrEqual(fleet.gpus.flat().length)
    expect(
      placed.every(({ configuration, slice }) =>
        [slice, 'none'].includes(String(configuration.migProfile)),
      ),
    ).toBe(true)
    const random = randomOf(1)
    for (const model of fleet.models) {
      const saw = await played(model, random)
      expect(saw, model.name).toMatchObject({ kept: true, failed: 0 })
      expect(saw.requests).toBeGreaterThan(1000)
      const rates = [...model.trace.matchAll(/,([\d.]+)/g)].map(([, rps]) => Number(rps))
      const carried = model.placements.reduce((sum, { rateRps }) => sum + rateRps, 0)
      const factor = (1.5 * carried) / Math.max(...rates)
      const slower = {
        ...model,
        trace: model.trace.replace(/,([\d.]+)/g, (_, rps) => `,${Number(rps) * factor}`),
      }
      expect((await played(slower, random)).kept, `${model.name}, overloaded`).toBe(false)
    }
  } finally {
    tune.end()
    await box.end()
  }
}, 120_000)
