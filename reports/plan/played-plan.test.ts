/**
 * Plans against requests: the same demand drawn request by request and played to the replicas that
 * the plan has, each a predictor in virtual time.
 */
import { expect, test } from 'vitest'
import { buildLoadCurve } from '../../profiler/capacity/rederive/load-curve.ts'
import { measureSimulatedCapacity } from '../../profiler/index.ts'
import { createUniform } from '../../profiler/seeded-random.ts'
import { findArchitecture } from '../../trials/devices/architecture.ts'
import { createSimulatedLauncher } from '../../trials/launchers/simulated/simulated-launcher.ts'
import { type Demand, sumPeriodSeconds } from './demand.ts'
import {
  type FleetOutcome,
  findMinReplicas,
  simulateAutoscaledFleet,
  simulateStaticFleet,
} from './fleet.ts'
import { defaultBehaviour } from './hpa.ts'
import { type FleetUnit, getMaxRps } from './replica.ts'

const slo = { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 }
const signal = new AbortController().signal
const queueLimit = 1000
const launcher = createSimulatedLauncher({ architecture: findArchitecture('bert'), seed: 7 })
const configuration = { cpuCores: 1, gpu: 'T4', gpuMemoryPercent: 25, batchSize: 8, queueLimit }

async function server(number: number) {
  const { target } = await launcher.launch(configuration, number, signal)
  if (target.kind !== 'virtual') throw new Error('not virtual')
  return target
}

const measurement = await measureSimulatedCapacity({
  target: await server(0),
  slo,
  seed: 3,
  signal,
})
const unit: FleetUnit = {
  label: 'x',
  capacityRps: measurement.capacityRps,
  saturationRps: measurement.saturationRps,
  curve: buildLoadCurve(measurement, slo),
  percentile: slo.percentile,
  limitMs: slo.limitMs,
  startupSeconds: 90,
  nodeSeconds: 240,
  replicasPerNode: 1,
}
const surroundings = { timeoutSeconds: queueLimit / getMaxRps(unit), reactionSeconds: 30 }

/**
 * What requests found, drawn as a Poisson process and sent to a random one of the replicas that the
 * plan has ready.
 */
async function played(demand: Demand, { ready }: FleetOutcome, seed: number) {
  const uniform = createUniform(seed)
  const period = sumPeriodSeconds(demand)
  const sent: number[][] = []
  const minutes = Array.from({ length: Math.ceil(period / 60) }, () => ({ came: 0, over: 0 }))
  let [from, step] = [0, 0]
  for (const { rps, seconds } of demand.spans) {
    let at = from
    while (true) {
      at -= Math.log(uniform()) / rps
      if (at >= from + seconds) break
      while (ready[step + 1] && ready[step + 1]!.seconds <= at) step++
      const replica = Math.floor(uniform() * ready[step]!.replicas)
      sent[replica] = sent[replica] ?? []
      sent[replica].push(1000 * at)
    }
    from += seconds
  }
  for (const [i, atMs] of sent.entries()) {
    const target = await server(i + 1)
    const load = {
      kind: 'open',
      rateRps: 1,
      durationS: period,
      seed: i,
      arrivals: { kind: 'trace', atMs },
    } as const
    const { latencyMs } = target.server.play(load)
    for (const [k, at] of atMs.entries()) {
      const minute = minutes[Math.floor(at / 60_000)]!
      minute.came++
      if (!(latencyMs[k]! <= slo.limitMs)) minute.over++
    }
  }
  const sum = (of: (m: { came: number; over: number }) => number) =>
    minutes.reduce((total, m) => total + of(m), 0)
  const miss = 1 - slo.percentile
  return {
    lostMinutes: minutes.filter((m) => m.over > miss * m.came).length,
    over: sum((m) => m.over) / sum((m) => m.came),
  }
}

const times = (...spans: readonly (readonly [capacities: number, seconds: number])[]): Demand => ({
  what: 'so many times the capacity of one',
  spans: spans.map(([capacities, seconds]) => ({ rps: capacities * unit.capacityRps, seconds })),
})
/** The same configuration, had its rates been measured so much too high. */
const misjudged = (factor: number): FleetUnit => ({
  ...unit,
  capacityRps: factor * unit.capacityRps,
  saturationRps: factor * unit.saturationRps!,
  curve: unit.curve!.map((knot) => ({ ...knot, rateRps: factor * knot.rateRps })),
})

test('so many replicas lose no minute and one fewer does, as requests find it; a capacity that is wrong by 10 % is found out', async () => {
  const found = async (demand: Demand, of: FleetUnit) => {
    const { everyMinute } = findMinReplicas(of, demand, 0, surroundings)
    const lost = async (n: number) =>
      (await played(demand, simulateStaticFleet(unit, demand, n, surroundings), n)).lostMinutes
    return (await lost(everyMinute)) === 0 && (await lost(everyMinute - 1)) > 0
  }
  const demands = [times([0.7, 600], [4.7, 300], [1, 300]), times([0.7, 600], [4.3, 300], [1, 300])]
  for (const demand of demands) expect(await found(demand, unit)).toBe(true)
  expect([
    await found(demands[0]!, misjudged(0.9)),
    await found(demands[1]!, misjudged(1.1)),
  ]).toEqual([false, false])
})

test('an autoscaled fleet loses the minutes that the plan says, and the share of requests within 4 %; not with a capacity that is wrong by 10 %', async () => {
  const wave = times([0.7, 900], [2.6, 1200], [1.4, 900], [4.3, 600], [0.7, 1200])
  const off = async (of: FleetUnit) => {
    const settings = {
      targetRps: 0.75 * unit.capacityRps,
      minReplicas: 1,
      maxReplicas: 99,
      behaviour: defaultBehaviour,
      countedRequests: 'answered',
    } as const
    const plan = simulateAutoscaledFleet(of, wave, settings, surroundings)
    const requests = await played(wave, plan, 1)
    return {
      minutes: Math.abs(plan.lostMinutes - requests.lostMinutes),
      share: Math.abs(plan.overLimitShare - requests.over),
    }
  }
  const right = await off(unit)
  expect(right.minutes).toBeLessThanOrEqual(1)
  expect(right.share).toBeLessThan(0.04)
  for (const factor of [0.9, 1.1])
    expect((await off(misjudged(factor))).share).toBeGreaterThan(0.04)
})
