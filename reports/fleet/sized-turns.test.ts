/**
 * Models whose requests are told apart by size, in turns by the hours: packed, checked anew, and
 * played.
 */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { architectureOf, type Decoder } from '../../trials/devices/architecture.ts'
import { type LlmRequest, modelledLlm } from '../../trials/launchers/simulated/llm-configuration.ts'
import { SimulatedLlmServer } from '../../trials/launchers/simulated/llm-server.ts'
import { type Demand, tableDemand } from '../plan/demand.ts'
import { toText } from '../report/document/markdown.ts'
import { unroutedRps } from './buckets.ts'
import { estimatedModel } from './estimated-rates.ts'
import { fleetBlocks, fleetJson } from './fleet-blocks.ts'
import { type FleetPlan, planFleet } from './fleet-plan.ts'
import { peaksOver } from './over-day.ts'
import {
  type FleetModel,
  type GpuKind,
  routedAt,
  type Segment,
  type Turning,
  whole,
} from './packing.ts'
import { type Placement, placementsOf } from './placements.ts'
import { routingComment } from './routing-blocks.ts'

const kindOf = (name: string, pricePerHour: number): GpuKind => ({
  name,
  pricePerHour,
  partitions: [[whole]],
})
const on = (gpu: string, rateRps: number): Segment => ({
  gpu,
  slice: whole,
  gpus: 1,
  rateRps,
  label: '',
  latencyMs: 100,
  limitMs: 400,
})
const turning: Turning = { loadS: 400, loadFrom: 'as given' }
type Asked = FleetModel & { readonly demand: Demand }

/**
 * Replicas of a placement that serve at each quarter: those that have been there for the time of a
 * load.
 */
const servingOf = ({
  replicas,
  inTurns = Array<number>(96).fill(replicas),
}: Placement): number[] => {
  const lead = Math.ceil((turning.loadS + 120) / 900)
  return inTurns.map((_, step) =>
    Math.min(...Array.from({ length: lead + 1 }, (__, i) => inTurns.at(step - i)!)),
  )
}

/**
 * What is wrong with who is there when, reckoned anew: each replica's time adds up over the kinds
 * of requests that it gets.
 */
function wrongIn(
  { atPeaks: { gpus }, turning = [] }: FleetPlan,
  models: readonly Asked[],
): string[] {
  const wrong: string[] = []
  const placements = placementsOf(gpus, () => [])
  for (const gpu of new Set(gpus.map(({ kind }) => kind)))
    for (let step = 0; step < 96; step++) {
      const there = placements
        .filter(({ segment }) => segment.gpu === gpu)
        .reduce((sum, { replicas, inTurns }) => sum + (inTurns?.[step] ?? replicas), 0)
      if (there > gpus.filter(({ kind }) => kind === gpu).length)
        wrong.push(`${there} on ${gpu} at ${step / 4}`)
    }
  for (const { name, demand, buckets = [] } of models) {
    const own = placements.filter(({ model }) => model === name)
    const asked = peaksOver(demand, 96)
    const { levels = [1], askedAt = [] } = turning.find((one) => one.name === name)?.overDay ?? {}
    const partsAt = ({ segment }: Placement, level: number) =>
      segment.routed!.levels?.[level - 1]?.parts ?? segment.routed!.parts
    for (const [b, bucket] of buckets.entries())
      for (const i of levels.keys()) {
        const routed = own.reduce((sum, one) => sum + partsAt(one, i + 1)[b]!, 0)
        if (Math.abs(routed - 1) > 1e-4)
          wrong.push(`${routed} of ${bucket.name} of ${name} goes somewhere`)
      }
    for (const [step, rps] of asked.entries()) {
      const carried = own.reduce((sum, one) => sum + servingOf(one)[step]! * one.segment.rateRps, 0)
      if (buckets.length === 0 && carried < rps * (1 - 1e-5)) wrong.push(`${name} at ${step / 4}`)
      for (const one of buckets.length > 0 ? own : []) {
        const busy = buckets.reduce((sum, { share }, b) => {
          const part = rps === 0 ? 0 : partsAt(one, askedAt[step] ?? 1)[b]! * share * rps
          return sum + (part > 1e-9 ? part / one.segment.bucketRps![b]! : 0)
        }, 0)
        if (busy > servingOf(one)[step]! * (1 + 1e-4) + 1e-6)
          wrong.push(`${name} on ${one.segment.gpu} at ${step / 4}: ${busy} busy`)
      }
    }
  }
  return wrong
}

const buckets = [
  { name: 'short', share: 0.8 },
  { name: 'long', share: 0.2 },
]
const sized = (
  name: string,
  text: string,
  rates: readonly (readonly [gpu: string, short: number, long: number])[],
  how?: Turning,
): Asked => ({
  name,
  buckets,
  segments: rates.map(([gpu, ...bucketRps]) => ({
    gpu,
    slice: whole,
    gpus: 1,
    rateRps: unroutedRps(buckets, bucketRps),
    bucketRps,
    label: '',
  })),
  demand: tableDemand(text),
  ...(how && { turning: how }),
})

test('a language model leaves its GPUs to others at night; the same parts of its requests go to each kind at all hours', async () => {
  const kinds = [kindOf('L4', 1), kindOf('H100', 5)]
  const chat = sized(
    'chat',
    '0-7:0, 7-19:40, 19-24:0',
    [
      ['L4', 20, 0.5],
      ['H100', 60, 9],
    ],
    turning,
  )
  const jobs: Asked = {
    name: 'jobs',
    segments: [on('L4', 1), on('H100', 10)],
    demand: tableDemand('0-6:10, 6-20:0, 20-24:10'),
    turning,
  }
  const plan = await planFleet([chat, jobs], kinds)
  // 32 a second of short ones take two L4, 8 of long ones an H100, on which the jobs are at night.
  expect(plan.atPeaks.pricePerHour).toBeCloseTo(7, 9)
  expect(plan.compared.unturned!.pricePerHour).toBeCloseTo(12, 9)
  expect(wrongIn(plan, [chat, jobs])).toEqual([])
  const text = toText(fleetBlocks(plan, [chat, jobs], 0, true))
  expect(text).toMatch(/chat +L4 +6:45-19:00: 2 +400 s +as given/)
  expect(text).toMatch(/chat +H100 +6:45-19:00: 1/)
  expect(text).toContain(
    'the same parts of the requests of chat go to each of its GPUs at all hours',
  )
  expect(text).toContain('no packing of these costs less')
  // What the table of routes says, and the file.
  expect(text).toMatch(/requests +of all +rate +2 on L4 +1 on H100/)
  const json = JSON.parse(fleetJson(plan, [chat, jobs]))
  expect(
    json.mixes[0].pools.map(({ gpu, replicas }: { gpu: string; replicas: number }) => [
      gpu,
      replicas,
    ]),
  ).toEqual([
    ['L4', 2],
    ['H100', 1],
  ])
})

test('where fewer replicas are there its requests go other ways, and it is said which in which hours', async () => {
  const kinds = [kindOf('L4', 1), kindOf('H100', 5)]
  const chat = sized(
    'chat',
    '0-7:1, 7-20:12, 20-24:1',
    [
      ['L4', 2, 1],
      ['H100', 30, 15],
    ],
    turning,
  )
  const jobs: Asked = {
    name: 'jobs',
    segments: [on('L4', 1), on('H100', 10)],
    demand: tableDemand('0-6:10, 6-21:0, 21-24:10'),
    turning,
  }
  const models = [chat, jobs]
  const plan = await planFleet(models, kinds)
  // By day an H100 carries all of it, by night an L4, and the H100 has the jobs.
  expect(plan.atPeaks.pricePerHour).toBeCloseTo(6, 9)
  expect(plan.compared.unturned!.pricePerHour).toBeCloseTo(10, 9)
  expect(wrongIn(plan, models)).toEqual([])
  const text = toText(fleetBlocks(plan, models, 0, true))
  expect(text).toContain('requests of chat go other ways at other hours, as is said below')
  expect(text).toMatch(/in hours +of the highest rate.*\n20:00-7:00 +8.3 %.*\n7:00-20:00 +100 %/)
  const json = JSON.parse(fleetJson(plan, models))
  expect(json.mixes[0].levels.map(({ hours }: { hours: string }) => hours)).toEqual([
    '20:00-7:00',
    '7:00-20:00',
  ])
  for (const level of [0, 1]) {
    const shares = json.mixes[0].pools.map(
      ({ atLevels }: { atLevels: { share: number }[] }) => atLevels[level]!.share,
    )
    expect(shares.reduce((sum: number, share: number) => sum + share, 0)).toBeCloseTo(1, 6)
  }
  const pictures = fleetBlocks(plan, models, 0, true).flatMap((block) =>
    block.kind === 'chart' ? [block.alt] : [],
  )
  expect(pictures.join()).not.toContain('NaN')
  expect(pictures.join()).toMatch(
    /H100 1: whole chat 6:45-20:00, jobs 20:45-6:00, 100 % busy at most/,
  )
  const commentOf = (gpu: string) => {
    const { segment } = placementsOf(plan.atPeaks.gpus, () => []).find(
      (one) => one.model === 'chat' && one.segment.gpu === gpu,
    )!
    return routingComment('chat', segment, buckets, plan.turning![0]!.overDay)
  }
  const comment = commentOf('L4')
  expect(commentOf('H100')).toContain('#  20:00-7:00: none\n#  7:00-20:00:\n')
  expect(comment).toMatch(
    /^# Of the requests of chat these go to these replicas, and no others:\n# {2}20:00-7:00:\n# {3}short: 100 % of them\n/,
  )
})

/**
 * The least money for a model with two buckets and one without, by trying every number of both
 * kinds at every level of both days.
 */
function leastMoney([chat, jobs]: readonly [Asked, Asked], price: number, most: number): number {
  const held = [chat, jobs].map(({ demand }) => {
    const rates = peaksOver(demand, 96)
    const lead = Math.ceil((turning.loadS + 120) / 900)
    return rates.map((_, step) =>
      Math.max(...Array.from({ length: lead + 1 }, (__, i) => rates[(step + i) % 96]!)),
    )
  }) as [number[], number[]]
  const levelsOf = (rates: readonly number[]) =>
    [...new Set(rates)].filter((rps) => rps > 0).sort((a, b) => a - b)
  const levels = held.map(levelsOf) as [number[], number[]]
  const rising = (count: number, up: number): number[][] =>
    Array.from({ length: count }).reduce<number[][]>(
      (all) =>
        all.flatMap((some) =>
          Array.from({ length: up + 1 - (some.at(-1) ?? 0) }, (_, i) => [
            ...some,
            (some.at(-1) ?? 0) + i,
          ]),
        ),
      [[]],
    )
  const both = (count: number) =>
    rising(count, most).flatMap((a) => rising(count, most).map((b) => [a, b] as const))
  const serves = {
    // Requests go to the replicas of a kind, as far as they carry them, that the other kind is
    // worst at.
    chat: ([a, b]: readonly (readonly number[])[]) =>
      levels[0].every((rps, at) => serves.once(a![at]! / rps, b![at]! / rps)),
    once: (room: number, other: number) => {
      const [first, second] = chat.segments.map(({ bucketRps }) =>
        buckets.map(({ share }, i) => share / bucketRps![i]!),
      ) as [number[], number[]]
      let [left, needed] = [room, 0]
      for (const i of [0, 1].sort((x, y) => first[x]! / second[x]! - first[y]! / second[y]!)) {
        const part = Math.min(1, left / first[i]!)
        left -= part * first[i]!
        needed += (1 - part) * second[i]!
      }
      return needed <= other + 1e-9
    },
    jobs: ([a, b]: readonly (readonly number[])[]) =>
      levels[1].every(
        (rps, i) =>
          a![i]! * jobs.segments[0]!.rateRps + b![i]! * jobs.segments[1]!.rateRps >=
          rps * (1 - 1e-9),
      ),
  }
  const plansOf = (counts: readonly (readonly [number[], number[]])[], m: 0 | 1) =>
    counts
      .map((pair) => pair.map((of) => [0, ...of]))
      .map((pair) => ({ pair, at: held[m].map((rps) => levels[m].indexOf(rps) + 1) }))
  const chats = plansOf(both(levels[0].length).filter(serves.chat), 0)
  const others = plansOf(both(levels[1].length).filter(serves.jobs), 1)
  const moments = [
    ...new Map(
      chats[0]!.at.map((level, step) => [
        `${level} ${others[0]!.at[step]}`,
        [level, others[0]!.at[step]!] as const,
      ]),
    ).values(),
  ]
  let best = Number.POSITIVE_INFINITY
  for (const { pair: a } of chats)
    for (const { pair: b } of others) {
      const mostOf = (kind: 0 | 1) =>
        Math.max(...moments.map(([i, j]) => a[kind]![i]! + b[kind]![j]!))
      best = Math.min(best, mostOf(0) + price * mostOf(1))
    }
  return best
}

test('of two kinds nothing costs less, by trying every number of both at every level of the days', async () => {
  const drawnDay = fc
    .tuple(
      fc.constantFrom(6, 9, 12),
      fc.constantFrom(15, 18, 21),
      fc.constantFrom(0, 4, 9),
      fc.constantFrom(6, 14),
    )
    .map(([from, to, low, high]) => `0-${from}:${low}, ${from}-${to}:${high}, ${to}-24:${low}`)
  const rates = fc.tuple(fc.integer({ min: 4, max: 12 }), fc.integer({ min: 1, max: 5 }))
  const drawn = fc.record({
    chat: drawnDay,
    jobs: drawnDay,
    small: rates,
    large: rates,
    own: fc.tuple(fc.integer({ min: 5, max: 9 }), fc.integer({ min: 6, max: 15 })),
    price: fc.integer({ min: 6, max: 30 }),
  })
  await fc.assert(
    fc.asyncProperty(drawn, async ({ chat, jobs, small, large, own, price }) => {
      const models = [
        sized(
          'chat',
          chat,
          [
            ['L4', ...small],
            ['H100', ...large],
          ],
          turning,
        ),
        {
          name: 'jobs',
          segments: [on('L4', own[0]), on('H100', own[1])],
          demand: tableDemand(jobs),
          turning,
        },
      ] as const
      const plan = await planFleet(models, [kindOf('L4', 1), kindOf('H100', price / 10)])
      expect(wrongIn(plan, models)).toEqual([])
      const least = leastMoney(models, price / 10, 4)
      // What takes more than was tried of a kind is dearer than nothing that was tried.
      if (Number.isFinite(least))
        expect(plan.atPeaks.pricePerHour).toBeLessThanOrEqual(least + 1e-6)
      const counts = ['L4', 'H100'].map(
        (gpu) => plan.atPeaks.gpus.filter(({ kind }) => kind === gpu).length,
      )
      if (Math.max(...counts) <= 4) expect(plan.atPeaks.pricePerHour).toBeCloseTo(least, 6)
      expect(plan.atPeaks.boundPerHour).toBeGreaterThan(plan.atPeaks.pricePerHour * 0.999)
    }),
    { numRuns: 20 },
  )
}, 120_000)

test('an estimated model, played at each level of its day on what is there then, keeps its SLO', async () => {
  const architecture = architectureOf('llama-3.1-8b') as Decoder
  const request = (promptTokens: number, outputTokens: number): LlmRequest => ({
    promptTokens,
    outputTokens,
    prefix: [],
  })
  const requests = [
    ...Array.from({ length: 300 }, (_, i) => request(80 + (i % 20), 200)),
    ...Array.from({ length: 100 }, () => request(9000, 300)),
  ]
  const slo = { percentile: 0.9, limitMs: 120, maxErrorRate: 0.001, metric: 'tpot' } as const
  const kinds = [kindOf('L4', 0.7), kindOf('H100', 5)]
  const estimated = estimatedModel({ name: 'chat', architecture, slo, requests }, kinds, () => 1)
  // 16 GB of weights at 0.15 GB/s, and what an engine takes besides.
  expect(estimated.segments.map(({ loadS }) => loadS)).toEqual([378, 378])
  const chat: Asked = {
    ...estimated,
    demand: tableDemand('0-7:3, 7-19:24, 19-24:3'),
    turning: { loadS: 378, loadFrom: 'assumed, from its weights' },
  }
  const jobs: Asked = {
    name: 'jobs',
    segments: [on('H100', 10)],
    demand: tableDemand('0-6:30, 6-20:0, 20-24:30'),
    turning,
  }
  const plan = await planFleet([chat, jobs], kinds)
  expect(wrongIn(plan, [chat, jobs])).toEqual([])
  expect(plan.atPeaks.pricePerHour).toBeLessThan(plan.compared.unturned!.pricePerHour)
  expect(toText(fleetBlocks(plan, [chat, jobs], 0))).toContain('378 s  assumed, from its weights')
  const asked = peaksOver(chat.demand, 96)
  let played = 0
  for (const placement of placementsOf(plan.atPeaks.gpus, () => []).filter(
    ({ model }) => model === 'chat',
  )) {
    const { segment } = placement
    const serving = servingOf(placement)
    for (const step of [16, 48]) {
      // Each replica has its part of what is routed to its pool.
      const { parts, share } = routedAt(
        segment,
        plan.turning!.find(({ name }) => name === 'chat')!.overDay!.askedAt[step]!,
      )
      if (share < 1e-6) continue
      const rateRps = (asked[step]! * share) / serving[step]!
      const own = [
        ...requests.slice(0, Math.round(300 * parts[0]!)),
        ...requests.slice(300, 300 + Math.round(100 * parts[1]!)),
      ]
      const server = new SimulatedLlmServer({
        server: modelledLlm(architecture, { gpu: segment.gpu, gpus: 1, maxModelLen: 9300 }),
        requests: shuffled(own),
      })
      const { stream } = server.play({
        kind: 'open',
        rateRps,
        arrivals: { kind: 'poisson' },
        durationS: 600 / rateRps,
        seed: 11,
      })
      const { tpot } = stream!.latenciesMs
      expect(
        tpot.filter((ms) => ms <= slo.limitMs).length / tpot.length,
        `${segment.gpu} at ${step / 4}`,
      ).toBeGreaterThan(0.87)
      played++
    }
  }
  expect(played).toBeGreaterThanOrEqual(2)
}, 120_000)

/** In an order that is the same each time. */
const shuffled = <T>(all: readonly T[]): T[] =>
  all
    .map((one, i) => ({ one, at: (i * 7919) % all.length }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one)
