import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { countReplicas } from '../../search/objective.ts'
import { instances } from '../../trials/prices/instances.ts'
import { countReplicasPerInstance } from '../../trials/prices/whole-instances.ts'
import {
  computeMeanRps,
  createPatternDemand,
  createSteadyDemand,
  DemandError,
  demandPatterns,
  findMinRps,
  findPeakRps,
  parseDayTable,
  sumPeriodSeconds,
} from './demand.ts'
import { findMinReplicas } from './fleet.ts'
import { type PlanInput, type PlanUnit, planCapacity } from './plan-capacity.ts'
import {
  countReplicasForZones,
  findBreakEvens,
  hoursPerMonth,
  listCloudCosts,
} from './plan-costs.ts'
import { parseTraceDemand } from './trace-demand.ts'

const surroundings = { timeoutSeconds: 10, reactionSeconds: 30 }
const unit = (capacityRps: number, perHour: number, change: Partial<PlanUnit> = {}): PlanUnit => ({
  label: `${capacityRps} req/s at $${perHour}`,
  status: 'confirmed',
  trial: 1,
  capacityRps,
  percentile: 0.99,
  limitMs: 50,
  startupSeconds: 60,
  nodeSeconds: 0,
  replicasPerNode: 1,
  resources: { cpuCores: 4, memoryMiB: 16_384, gpu: 'V100', gpus: 1, gpuShare: 1 },
  prices: [{ name: 'on-demand', currency: 'USD', perHour }],
  ...change,
})
const input = (change: Partial<PlanInput>): PlanInput => ({
  provenance: 'measured',
  units: [unit(100, 1)],
  slo: { percentile: 0.99, limitMs: 50, maxErrorRate: 0.001 },
  demand: createSteadyDemand(100),
  headroom: 0,
  growthPerMonth: 0,
  months: 1,
  zones: 3,
  surroundings,
  minReplicas: 1,
  ...change,
})

describe('the published example', () => {
  const plan = (capacityRps: number) =>
    planCapacity(input({ units: [unit(capacityRps, 3.06)] })).units[0]!

  test('100 req/s at 2 req/s per instance of $3.06 an hour is $110,160 for a month of 30 days', () => {
    expect(plan(2).months[0]).toMatchObject({ replicas: 50, staticPerMonth: 110_160 })
  })

  test('of a list that sells whole instances of four replicas, a fleet of nine pays three of them', () => {
    const list = {
      name: 'whole',
      currency: 'USD',
      perHour: 1,
      bundles: [{ name: 'four', replicas: 4, perHour: 4 }],
    }
    const { units, breakEven: best } = planCapacity(
      input({ units: [unit(12, 1, { prices: [list] })] }),
    )
    expect(units[0]!.months[0]).toMatchObject({
      replicas: 9,
      staticPerMonth: 12 * 720,
      withSparePerMonth: 12 * 720,
    })
    expect(units[0]).toMatchObject({
      zonePerMonth: 16 * 720,
      byPriceList: [{ name: 'whole', perMonth: 12 * 720 }],
    })
    expect(best[0]!.pricePerHour).toBe(4)
    // A GPU each would be nine of $2: three instances of four at $4 save $6 an hour.
    const shared = unit(12, 1, {
      prices: [list],
      wholeGpuPerHour: 2,
      wholeGpuBundles: [{ name: 'one', replicas: 1, perHour: 2 }],
    })
    expect(planCapacity(input({ units: [shared] })).units[0]!.sharingSavesPerMonth).toBe(6 * 720)
  })

  test('at 12 req/s per instance it becomes 9 instances and $19,828.80', () => {
    expect(plan(12).months[0]).toMatchObject({ replicas: 9, staticPerMonth: 19_828.8 })
  })
})

describe('demands that are out of the ordinary', () => {
  test('a period of seconds is played for hours: the autoscaler sees its mean, and no minute is lost for want of time to look', () => {
    const short = { spans: [10, 190].map((rps) => ({ rps, seconds: 10 })), what: 'seconds' }
    const { units, demand, scaling } = planCapacity(
      input({ units: [unit(100, 1, { saturationRps: 120 })], demand: short }),
    )
    expect(demand).toBe(short)
    expect(units[0]!.months[0]).toMatchObject({ replicas: 2, meanRps: 100 })
    expect(scaling.given.outcome.minutes).toBe(120)
  })

  test('more replicas than can be planned for are refused with what they are for', () => {
    expect(() => planCapacity(input({ demand: createSteadyDemand(1e12) }))).toThrow(
      /100 req\/s at \$1 would need 10000000000 replicas/,
    )
    expect(() => planCapacity(input({ existing: { trial: 1, replicas: 1e9 } }))).toThrow(
      /a plan has at most 100000 replicas/,
    )
    expect(() => planCapacity(input({ growthPerMonth: 10, months: 120 }))).toThrow(/replicas/)
  })
})

describe('demand', () => {
  test('a table covers the day, each hour once', () => {
    const day = parseDayTable('0-8:20, 8-20.5:200, 20.5-24:60')
    expect(day.spans).toHaveLength(96)
    expect([31, 32, 81, 82].map((i) => day.spans[i]!.rps)).toEqual([20, 200, 200, 60])
    for (const bad of ['0-8:20', '0-25:1', '0-12:1,6-24:1', '8-8:1', 'x', '0-24:0', ''])
      expect(() => parseDayTable(bad), bad).toThrow(DemandError)
  })

  test('a trace is read with any timestamps, header or not, and gaps held', () => {
    const read = (text: string) =>
      parseTraceDemand(text, 't.csv').spans.map(({ rps, seconds }) => [rps, seconds])
    expect(read('timestamp,rate\n0,10\n60,20\n240,30\n300,5\n')).toEqual([
      [10, 60],
      [20, 180],
      [30, 60],
      [5, 60],
    ])
    expect(read('2026-01-01T00:00:00Z,1\n2026-01-01T01:00:00Z,2\n')).toEqual([
      [1, 3600],
      [2, 3600],
    ])
    expect(read('1767225600000,1\n1767225660000,2')[0]).toEqual([1, 60])
    for (const bad of ['', 'a,b\n1,2', '1,2\n2,x', '1,2\n2,-1', '2,1\n1,1', '1,2\n2,', '1,0\n2,0'])
      expect(() => parseTraceDemand(bad, 't.csv'), bad).toThrow(DemandError)
  })

  test('a trace keeps its peaks and its mean, whatever its gaps: half an hour at 9,000 in hours at 100 takes eleven of 830', () => {
    const spike = parseTraceDemand(
      '0,100\n3600,100\n7200,100\n11700,9000\n13500,100\n18000,100\n21600,100',
      't.csv',
    )
    expect(findPeakRps(spike)).toBe(9000)
    expect(computeMeanRps(spike)).toBeCloseTo((9000 * 1800 + 100 * (25_200 - 1800)) / 25_200, 9)
    expect(findMinReplicas(unit(830, 1), spike, 0, surroundings)).toEqual({
      everyMinute: 11,
      wholePeriod: 11,
    })
    // Its last row stands where the day begins anew.
    const day = parseTraceDemand(readFileSync('docs/files/last-month.csv', 'utf8'), 't.csv')
    expect([computeMeanRps(day), sumPeriodSeconds(day)]).toEqual([106, 86_400])
    expect(findPeakRps(parseTraceDemand('0,1\n43200,2\n86400,9', 't.csv'))).toBe(9)
  })

  test('patterns peak where they should and are low on the mean', () => {
    for (const pattern of demandPatterns) {
      const day = createPatternDemand(pattern, 500)
      expect(findPeakRps(day)).toBeCloseTo(500, 6)
      expect(computeMeanRps(day)).toBeLessThan(320)
      expect(findMinRps(day)).toBeGreaterThan(0)
    }
    expect(() => createPatternDemand('daily', 0)).toThrow(DemandError)
    expect(() => createSteadyDemand(Number.NaN)).toThrow(DemandError)
  })
})

describe('a plan', () => {
  test('grows with the demand, and names spare, zones, sharing and existing fleet', () => {
    const plan = planCapacity(
      input({
        demand: createSteadyDemand(1000),
        headroom: 0.2,
        growthPerMonth: 0.1,
        months: 3,
        units: [unit(100, 2, { wholeGpuPerHour: 3 }), unit(60, 1, { trial: 2 })],
        existing: { trial: 2, replicas: 22 },
      }),
    )
    expect(plan.units.map((u) => u.unit.trial)).toEqual([2, 1])
    const [cheap, dear] = [plan.units[0]!, plan.units[1]!]
    expect(dear.months.map((m) => m.replicas)).toEqual([13, 14, 16])
    expect(dear.months[0]).toMatchObject({
      staticPerMonth: 13 * 2 * 720,
      withSparePerMonth: 14 * 2 * 720,
    })
    expect(dear.months[0]!.utilisation).toBeCloseTo(1000 / 1300, 9)
    expect(dear.staticTotal).toBeCloseTo((13 + 14 + 16) * 2 * 720, 6)
    expect(dear).toMatchObject({
      zoneReplicas: 20,
      zonePerMonth: 20 * 2 * 720,
      sharingSavesPerMonth: 13 * 720,
    })
    expect(cheap.sharingSavesPerMonth).toBeUndefined()
    expect(plan.existing).toMatchObject({
      carriesRps: 22 * 60 * 0.8,
      atMostRps: 1320,
      withOneLostRps: 1260,
      perMonth: 22 * 720,
    })
    expect(plan.existing!.underDemand.map((m) => m.outcome.lostMinutes)).toEqual([0, 0, 0])
    const tight = planCapacity(
      input({
        demand: createSteadyDemand(1000),
        growthPerMonth: 0.5,
        months: 2,
        units: [unit(60, 1)],
        existing: { trial: 1, replicas: 22 },
      }),
    )
    expect(tight.existing!.underDemand.map((m) => m.outcome.lostMinutes)).toEqual([0, 24 * 60])
  })

  test('settings that are to be written keep one replica and count its answers, though the plan goes to none', () => {
    const demand = parseDayTable('0-8:10, 8-20:900, 20-24:10')
    const { scaling } = planCapacity(input({ demand, headroom: 0.2, minReplicas: 0 }))
    expect(scaling.given.settings).toMatchObject({ minReplicas: 0, countedRequests: 'arrived' })
    expect(scaling.lossless!.settings).toMatchObject({ countedRequests: 'answered' })
    expect(scaling.lossless!.settings.minReplicas).toBeGreaterThanOrEqual(1)
    expect(scaling.lossless!.outcome.lostMinutes).toBe(0)
  })

  test('is refused for what cannot be', () => {
    for (const bad of [
      { units: [] },
      { units: [unit(0, 1)] },
      { headroom: 1 },
      { months: 0 },
      { zones: 0 },
      { growthPerMonth: -1 },
      { existing: { trial: 9, replicas: 1 } },
    ]) {
      expect(() => planCapacity(input(bad))).toThrow(RangeError)
    }
  })
})

describe('costs', () => {
  test('break-even: the small and cheap first, then what is cheaper per request', () => {
    const segments = findBreakEvens(
      [
        { label: 'small', capacityRps: 10, pricePerHour: 1 },
        { label: 'big', capacityRps: 100, pricePerHour: 5 },
      ],
      1000,
      0,
    )
    expect(segments[0]).toMatchObject({ fromRps: 0, label: 'small', pricePerHour: 1 })
    expect(segments[1]).toMatchObject({ fromRps: 50, label: 'big', pricePerHour: 5 })
    expect(segments.at(-1)!.label).toBe('big')
  })

  test('break-even names the cheapest at any demand', () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.double({ min: 5, max: 200, noNaN: true }),
            fc.double({ min: 0.1, max: 9, noNaN: true }),
          ),
          {
            minLength: 1,
            maxLength: 4,
          },
        ),
        fc.double({ min: 0.5, max: 990, noNaN: true }),
        (drawn, demand) => {
          const rivals = drawn.map(([capacityRps, pricePerHour], i) => ({
            label: String(i),
            capacityRps,
            pricePerHour,
          }))
          const segments = findBreakEvens(rivals, 1000, 0.1)
          const named = segments.filter((s) => s.fromRps < demand).at(-1)!
          const price = (label: string) =>
            countReplicas(
              { demandRps: demand, headroom: 0.1 },
              rivals[Number(label)]!.capacityRps,
            ) * rivals[Number(label)]!.pricePerHour
          const least = Math.min(...rivals.map((r) => price(r.label)))
          // A demand within a rounding error of a stair may stand on either side of it.
          fc.pre(
            rivals.every(
              (r) =>
                Math.abs(
                  demand / (r.capacityRps * 0.9) - Math.round(demand / (r.capacityRps * 0.9)),
                ) > 1e-4,
            ),
          )
          expect(price(named.label)).toBeCloseTo(least, 9)
        },
      ),
    )
  })

  test('clouds: replicas share an instance as far as GPU, cores and memory go', () => {
    const g4dn = instances.find((i) => i.name === 'g4dn.xlarge')!
    expect(g4dn).toMatchObject({ gpu: 'T4', onDemandPerHour: 0.526, reservedPerHour: 0.331 })
    const quarter = { cpuCores: 1, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 0.25 }
    expect(countReplicasPerInstance(quarter, g4dn)).toBe(4)
    expect(countReplicasPerInstance({ ...quarter, cpuCores: 2 }, g4dn)).toBe(2)
    expect(countReplicasPerInstance({ ...quarter, memoryMiB: 9000 }, g4dn)).toBe(1)
    const [cheapest] = listCloudCosts(quarter, 5).filter(
      (c) => c.cloud === 'aws' && c.purchase === 'on-demand',
    )
    expect(cheapest!.perMonth).toBeLessThanOrEqual(2 * 0.526 * hoursPerMonth)
    expect(listCloudCosts({ cpuCores: 4, memoryMiB: 1024, gpus: 0, gpuShare: 0 }, 3)).toEqual([])
  })

  test('a replica of several GPUs takes whole ones, and a share of several has no place', () => {
    const eight = {
      cloud: 'aws',
      name: 'eight',
      gpu: 'T4',
      gpus: 8,
      vcpus: 64,
      memoryGiB: 256,
      onDemandPerHour: 8,
      source: 'a test',
    } as const
    const two = { cpuCores: 1, memoryMiB: 1024, gpu: 'T4', gpus: 2, gpuShare: 1 }
    expect(countReplicasPerInstance(two, eight)).toBe(4)
    expect(countReplicasPerInstance({ ...two, gpus: 3 }, eight)).toBe(2)
    expect(countReplicasPerInstance({ ...two, gpuShare: 0.5 }, eight)).toBe(0)
    expect(countReplicasPerInstance({ ...two, gpu: 'L4' }, eight)).toBe(0)
    // Thirds of eight GPUs: 24, however 1/3 is rounded.
    expect(countReplicasPerInstance({ ...two, gpus: 1, gpuShare: 1 / 3 }, eight)).toBe(24)
    expect(countReplicasPerInstance({ ...two, gpus: 1, cpuCores: 9 }, eight)).toBe(7)
    expect(countReplicasPerInstance({ ...two, gpus: 1, memoryMiB: 100 * 1024 }, eight)).toBe(2)
  })

  test('the cheapest of each cloud and way to buy, cheapest first, whole instances for a month of 720 hours', () => {
    const resources = { cpuCores: 1, memoryMiB: 1024, gpu: 'T4', gpus: 1, gpuShare: 1 }
    const offer = (
      cloud: 'aws' | 'gcp',
      name: string,
      gpus: number,
      onDemandPerHour: number,
      reservedPerHour?: number,
    ) => ({
      cloud,
      name,
      gpu: 'T4',
      gpus,
      vcpus: 64,
      memoryGiB: 256,
      onDemandPerHour,
      reservedPerHour,
      source: 'a test',
    })
    const list = [
      offer('aws', 'one', 1, 1, 0.75),
      offer('aws', 'four', 4, 3.5),
      offer('gcp', 'single', 1, 0.5),
    ]
    // Five replicas: five ones at 5, or two fours at 7; reserved ones at 3.75.
    expect(listCloudCosts(resources, 5, list)).toEqual([
      {
        cloud: 'gcp',
        instance: 'single',
        purchase: 'on-demand',
        replicasEach: 1,
        count: 5,
        perMonth: 2.5 * 720,
      },
      {
        cloud: 'aws',
        instance: 'one',
        purchase: 'reserved, 1 year',
        replicasEach: 1,
        count: 5,
        perMonth: 3.75 * 720,
      },
      {
        cloud: 'aws',
        instance: 'one',
        purchase: 'on-demand',
        replicasEach: 1,
        count: 5,
        perMonth: 5 * 720,
      },
    ])
    // Eight: two fours at 7 against eight ones at 8.
    expect(
      listCloudCosts(resources, 8, list).find(
        (c) => c.cloud === 'aws' && c.purchase === 'on-demand',
      ),
    ).toMatchObject({
      instance: 'four',
      replicasEach: 4,
      count: 2,
      perMonth: 7 * 720,
    })
  })

  test('break-even: ties stay with who was cheapest before, what cannot serve is no rival, nothing beyond the range', () => {
    const rivals = [
      { label: 'a', capacityRps: 100, pricePerHour: 1 },
      { label: 'b', capacityRps: 200, pricePerHour: 2 },
      { label: 'dead', capacityRps: 0, pricePerHour: 0 },
    ]
    // b costs as much as a wherever a needs two of every pair.
    expect(findBreakEvens(rivals, 1000, 0)).toEqual([{ fromRps: 0, label: 'a', pricePerHour: 1 }])
    expect(findBreakEvens(rivals.toReversed(), 100, 0)).toEqual([
      { fromRps: 0, label: 'a', pricePerHour: 1 },
    ])
    expect(findBreakEvens([], 1000, 0)).toEqual([])
    // A language model may serve less than one request per second.
    expect(findBreakEvens([{ label: 'slow', capacityRps: 0.5, pricePerHour: 1 }], 1, 0)).toEqual([
      { fromRps: 0, label: 'slow', pricePerHour: 1 },
    ])
    const late = [
      { label: 'small', capacityRps: 10, pricePerHour: 1 },
      { label: 'big', capacityRps: 100, pricePerHour: 5 },
    ]
    expect(findBreakEvens(late, 50, 0).map(({ label }) => label)).toEqual(['small'])
    // A fifth is kept free: five small ones carry 40 and no more.
    expect(findBreakEvens(late, 60, 0.2).map(({ fromRps, label }) => [fromRps, label])).toEqual([
      [0, 'small'],
      [40, 'big'],
    ])
  })

  test('zones: what is left when the fullest is lost carries the load, and one replica less would not', () => {
    expect([1, 4, 5, 6].map((n) => countReplicasForZones(n, 3))).toEqual([2, 6, 8, 9])
    expect([1, 2, 3].map((zones) => countReplicasForZones(4, zones))).toEqual([4, 8, 6])
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 500 }),
        fc.integer({ min: 2, max: 6 }),
        (replicas, zones) => {
          const all = countReplicasForZones(replicas, zones)
          const left = (n: number) => n - Math.ceil(n / zones)
          expect(left(all)).toBeGreaterThanOrEqual(replicas)
          expect(left(all - 1)).toBeLessThan(replicas)
        },
      ),
    )
  })
})
