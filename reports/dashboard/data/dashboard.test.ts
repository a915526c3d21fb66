import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { replaceLimit, resolveLimits } from '../../../profiler/model/slo.ts'
import { createObjective, getDemand, objectiveKinds } from '../../../search/objective.ts'
import type { Objective } from '../../../search/types.ts'
import { defaultPriceBook } from '../../../trials/prices/book.ts'
import { parsePriceBook } from '../../../trials/prices/parse-book.ts'
import { anyTrial } from '../../../trials/store/samples.contract.ts'
import type { FinishedTrial } from '../../../trials/types.ts'
import { listCandidates } from '../../recommendation/candidates.ts'
import { A, B, tight, tried } from '../../recommendation/invented-trials.contract.ts'
import { recommend } from '../../recommendation/recommend.ts'
import type { Candidate } from '../../recommendation/types.ts'
import { formatGain } from '../../recommendation/verdict.ts'
import { sampleInput, sampleTrials } from '../../samples.contract.ts'
import { createEffectOption } from '../charts/analysis-charts.ts'
import {
  createCostFunction,
  createDecisionOption,
  findParetoFront,
  listCostMeasures,
} from '../charts/decision-chart.ts'
import { createParetoChart } from '../charts/pareto-chart.ts'
import { createLogAxis, darkTheme, lightTheme } from '../charts/theme.ts'
import { renderStandalonePage } from '../standalone.ts'
import { editPrice, formatAddress, maxCompared, maxSideBySide, parseAddress } from './address.ts'
import {
  describeDifferences,
  findKnee,
  listHistory,
  listSensitivity,
  pairCandidates,
  planFleet,
} from './analysis.ts'
import { type DashboardExperiment, packTrial, unpackTrial } from './page-data.ts'
import { isOwnQuestion, pickOwnQuestion, Ranker } from './ranking.ts'

const experiment: DashboardExperiment = {
  id: 'bert-7f3a',
  name: 'bert',
  createdAt: '2026-11-20T10:00:00.000Z',
  state: 'done',
  provenance: 'emulated',
  seed: 7,
  model: 'bert',
  hardware: 'T4 (emulated)',
  load: 'Poisson arrivals',
  sampler: 'gp',
  maxTrials: 20,
  slo: sampleInput.slo,
  objective: sampleInput.objective,
  headroom: 0.2,
  prices: defaultPriceBook,
  parameters: [],
  notices: [],
  specification: '',
}

/** A trace's times are left out on purpose. */
const withoutTraces = (trial: FinishedTrial): FinishedTrial =>
  JSON.stringify(trial).includes('"atMs"')
    ? JSON.parse(JSON.stringify(trial), (key, value) => (key === 'atMs' ? [] : value))
    : trial

test('a packed trial is the trial', () => {
  fc.assert(
    fc.property(anyTrial, (trial) => {
      fc.pre(withoutTraces(trial) === trial)
      expect(unpackTrial(packTrial(trial))).toEqual(trial)
    }),
  )
})

describe('ranking in the page', () => {
  const ranker = new Ranker(experiment)
  const whatIf = pickOwnQuestion(experiment)

  test('of several limits each moves by itself, and no load curve of other limits is remembered', () => {
    const trials = [
      tried(1, A, 100, {
        slo: tight,
        windows: [
          [60, 110],
          [90, 160],
        ],
      }),
      tried(2, B, 120, {
        slo: tight,
        windows: [
          [70, 120],
          [110, 170],
        ],
      }),
    ]
    const remembering = new Ranker({ ...experiment, slo: tight })
    // Times per token are a tenth of those to the first token in these windows: a limit of 12 ms is
    // the one that binds.
    for (const slo of [tight, replaceLimit(tight, 1, 12), replaceLimit(tight, 0, 130), tight]) {
      const asked = { ...pickOwnQuestion({ ...experiment, slo: tight }), slo }
      const figures = (ranker: Ranker) => ranker.recommend(trials, asked).best?.capacityRps
      expect(figures(remembering)).toBe(figures(new Ranker({ ...experiment, slo: tight })))
    }
    expect(resolveLimits(replaceLimit(tight, 1, 12)).map(({ limitMs }) => limitMs)).toEqual([
      200, 12, 2000,
    ])
  })

  test('says what the command line says, also after another question has been asked', () => {
    const reference = recommend({
      ...sampleInput,
      ...ranker.createCriteria(whatIf),
      curve: undefined,
      provenance: 'emulated',
      maxTrials: experiment.maxTrials,
      notices: [],
    })
    for (const limitMs of [50, 12, 50, 200]) {
      const asked = { ...whatIf, slo: { ...whatIf.slo, limitMs } }
      const fresh = recommend({
        ...sampleInput,
        ...new Ranker(experiment).createCriteria(asked),
        curve: undefined,
        maxTrials: experiment.maxTrials,
        notices: [],
      })
      expect(ranker.recommend(sampleTrials, asked)).toEqual(fresh)
    }
    expect(ranker.recommend(sampleTrials, whatIf)).toEqual(reference)
  })

  test('follows an edited price', () => {
    const price = (perHour: number) => ({
      ...whatIf,
      prices: { ...defaultPriceBook, gpus: { T4: { perHour, source: 'test' } } },
    })
    const [cheap, dear] = [price(0.1), price(10)].map(
      (w) => ranker.recommend(sampleTrials, w).best!,
    )
    expect(dear!.pricePerHour).toBeGreaterThan(cheap!.pricePerHour)
    const gone = { ...whatIf, prices: { ...defaultPriceBook, gpus: {} } }
    expect(
      listCandidates(ranker.recommend(sampleTrials, gone)).every(
        (c) => c.pricePerHour === Number.POSITIVE_INFINITY,
      ),
    ).toBe(true)
  })

  test('knows when the question is the experiment own one', () => {
    expect(isOwnQuestion(experiment, { ...whatIf })).toBe(true)
    expect(isOwnQuestion(experiment, { ...whatIf, slo: { ...whatIf.slo, limitMs: 51 } })).toBe(
      false,
    )
  })

  test('keeps the certainty of the stop rule to the question it was asked for', () => {
    const sure = new Ranker({
      ...experiment,
      stop: { probabilityBetterExists: 0.02, tolerance: 0.05 },
    })
    expect(sure.recommend(sampleTrials, whatIf).confidence.probabilityWithinTolerance).toBeCloseTo(
      0.98,
    )
    const other = { ...whatIf, slo: { ...whatIf.slo, limitMs: 30 } }
    expect(
      sure.recommend(sampleTrials, other).confidence.probabilityWithinTolerance,
    ).toBeUndefined()
  })
})

const candidate = (change: Partial<Candidate> = {}): Candidate => ({
  trial: 1,
  configuration: { batchSize: 1 },
  label: 'batch 1',
  status: 'measured',
  sloMsFrom: 'model',
  capacityRps: 100,
  capacityCi90Rps: [90, 110],
  sloMsAtCapacity: 50,
  pricePerHour: 1,
  pricePerMillionRequests: 2.78,
  cost: 2.78,
  feasible: true,
  ...change,
})

describe('analysis', () => {
  test('the knee is where the latency is twice the idle one', () => {
    const knot = (rateRps: number, latencyMs: number) => ({
      rateRps,
      latencyMs,
      lowMs: latencyMs,
      highMs: latencyMs,
      requests: 1,
    })
    const knee = findKnee([knot(0, 10), knot(100, 10), knot(200, 40)])
    expect(knee).toEqual({ rateRps: 150, latencyMs: 20 })
    expect(findKnee([knot(0, 10), knot(100, 12)])).toBeUndefined()
    expect(findKnee([])).toBeUndefined()
  })

  test('a fleet for a demand, and what it becomes when something changes', () => {
    const fleet = planFleet(candidate(), 400, 0.2)
    expect(fleet).toMatchObject({
      replicas: 5,
      replicasWithSpare: 5,
      pricePerMonth: 5 * 720,
      utilisation: 0.8,
      utilisationOneLost: 1,
    })
    expect(planFleet(candidate(), 400, 0)).toMatchObject({ replicas: 4, replicasWithSpare: 5 })
    const rows = listSensitivity(candidate(), 400, 0.2)
    expect(rows.find((r) => r.scenario === 'demand doubled')?.replicas).toBe(10)
    expect(rows.find((r) => r.scenario.includes('low end'))?.replicas).toBe(6)
  })

  test('history knows the best so far and the money spent', () => {
    const costs = new Map([
      [2, candidate({ trial: 2, cost: 4 })],
      [3, candidate({ trial: 3, cost: 6 })],
    ])
    const points = listHistory(sampleTrials.slice(0, 3), costs, () => 3600)
    expect(points.map((p) => [p.cost, p.best, p.spent])).toEqual([
      [undefined, undefined, 25],
      [4, 4, 50],
      [6, 4, 75],
    ])
  })

  test('pairs of two experiments, largest change first, with whether it is certain', () => {
    const left = [
      candidate(),
      candidate({ trial: 2, configuration: { batchSize: 2 } }),
      candidate({ trial: 3, configuration: { batchSize: 4 } }),
    ]
    const right = [
      candidate({ capacityRps: 105, capacityCi90Rps: [95, 115] }),
      candidate({ configuration: { batchSize: 2 }, capacityRps: 300, capacityCi90Rps: [280, 320] }),
      candidate({ configuration: { batchSize: 99 } }),
    ]
    expect(pairCandidates(left, right).map((p) => [p.ratio, p.overlap])).toEqual([
      [3, false],
      [1.05, true],
    ])
  })
})

describe('charts', () => {
  test('a log axis holds its values, also none, and those that are no numbers', () => {
    fc.assert(
      fc.property(
        fc.array(fc.double({ min: 1e-3, max: 1e6, noNaN: true }), { minLength: 1 }),
        (values) => {
          const { min, max } = createLogAxis([
            ...values,
            Number.NaN,
            Number.POSITIVE_INFINITY,
            0,
            -1,
          ])
          expect(values.every((v) => v >= min && v <= max)).toBe(true)
        },
      ),
    )
    expect(createLogAxis([])).toMatchObject({ logBase: 2, max: 128 })
  })

  test('the Pareto chart is the same data in dark and light', () => {
    const recommendation = new Ranker(experiment).recommend(
      sampleTrials,
      pickOwnQuestion(experiment),
    )
    const input = {
      recommendation,
      trials: sampleTrials,
      latencies: createLogAxis([1, 100]),
      curves: [],
      throughput: 'per-dollar',
      devices: ['T4'],
    } as const
    const data = (theme: typeof lightTheme) =>
      (createParetoChart(input, theme).series as { id: string; data: unknown }[]).map((s) => [
        s.id,
        s.data,
      ])
    expect(data(darkTheme)).toEqual(data(lightTheme))
    expect(data(lightTheme).find(([id]) => id === 'device T4')?.[1]).toHaveLength(3)
  })
})

describe('cost against capacity', () => {
  const a = candidate({ trial: 1, capacityRps: 100, pricePerHour: 1, label: 'small' })
  const b = candidate({ trial: 2, capacityRps: 1000, pricePerHour: 4, label: 'large' })
  const dear = candidate({ trial: 3, capacityRps: 90, pricePerHour: 2, label: 'dear' })

  test('of at least its capacity nothing is cheaper than what the line goes through', () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 50 }))),
        (drawn) => {
          const all = drawn.map(([capacityRps, pricePerHour], trial) =>
            candidate({ trial, capacityRps, pricePerHour }),
          )
          const cost = (c: Candidate) => c.pricePerHour
          const line = findParetoFront(all, cost)
          const cheapest = (atLeast: number, of: readonly Candidate[]) =>
            Math.min(...of.filter((c) => c.capacityRps >= atLeast).map(cost))
          for (const { capacityRps } of all)
            expect(cheapest(capacityRps, line)).toBe(cheapest(capacityRps, all))
        },
      ),
    )
    expect(findParetoFront([a, b, dear], (c) => c.pricePerHour)).toEqual([b, a])
  })

  test('the first cost measure is that of the objective', () => {
    const first = (objective: Objective) => listCostMeasures({ objective })[0]
    expect(first({ kind: 'price-per-request' })).toBe('price-per-request')
    expect(first({ kind: 'max-rate', maxPricePerHour: 3 })).toBe('price')
    const demand = { kind: 'price-for-demand', demandRps: 150, headroom: 0 } as const
    expect(first(demand)).toBe('price-for-demand')
    expect(createCostFunction('price-for-demand', { objective: demand })(a)).toBe(2)
    expect(createCostFunction('price-per-request', { objective: demand })(a)).toBeCloseTo(
      1e6 / 360_000,
    )
    expect(createCostFunction('price', { objective: demand })(b)).toBe(4)
  })

  test('shows the baseline, the gain, the status by its mark, and no two GPUs alike', () => {
    const recommendation = new Ranker(experiment).recommend(
      sampleTrials,
      pickOwnQuestion(experiment),
    )
    const devices = ['T4', 'L4', 'A10G', 'V100', 'A100-40GB', 'H100', 'L40S']
    const series = createDecisionOption(
      { recommendation, costMeasure: 'price-per-request', devices },
      lightTheme,
    ).series as {
      id: string
      symbol: string
      color: string
      data: { value: number[] }[]
      markLine?: { label: { formatter: string } }
    }[]
    const of = (id: string) => series.find((s) => s.id === id)!
    expect(of('recommended').data).toHaveLength(1)
    expect(of('gain').markLine!.label.formatter).toBe(
      formatGain(recommendation.objective, recommendation.gainOverDefault!),
    )
    expect(of('capacity intervals').data.length).toBeGreaterThan(1)
    expect(new Set(devices.map((d) => of(`decide ${d}`).symbol)).size).toBe(7)
    expect(new Set(devices.map((d) => of(`decide ${d}`).color)).size).toBe(7)
    const names = of('device names').data as unknown as { label: { formatter: string } }[]
    expect(names.map((n) => n.label.formatter)).toEqual(['T4'])
  })
})

describe('the address is the question', () => {
  const many: DashboardExperiment = { ...experiment, slo: tight, minQuality: 0.9 }
  const some = fc.double({ min: 0.001, max: 1e6, noNaN: true })
  const objectives = fc.constantFrom(...objectiveKinds)

  test('whatever is asked, its address asks the same', () => {
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.record({
          a: some,
          b: some,
          c: some,
          d: some,
          quality: fc.option(some, { nil: undefined }),
          kind: objectives,
          share: fc.double({ min: 0, max: 0.99, noNaN: true }),
        }),
        fc.option(fc.integer({ min: 1 }), { nil: undefined }),
        fc.uniqueArray(fc.integer({ min: 1 }), { minLength: 1, maxLength: maxSideBySide }),
        fc.uniqueArray(fc.string({ minLength: 1 }), { minLength: 1, maxLength: maxCompared }),
        (several, { a, b, c, d, quality, kind, share }, trial, sideBySide, compared) => {
          const of = several ? many : experiment
          const objective = createObjective(kind, {
            demandRps: a,
            headroom: share,
            maxPricePerHour: b,
            metric: 'depth{model="a b"}',
          })
          const prices = editPrice(editPrice(defaultPriceBook, 'L4', c), 'vCPU', d)
          const slo = { ...replaceLimit(of.slo, 0, a), percentile: 0.9 }
          const planning = getDemand(objective) ? undefined : { demandRps: d, headroom: share }
          const asked = {
            whatIf: { slo, objective, prices, minQuality: quality },
            planning,
            trial,
            sideBySide,
            compared,
          }
          const { refused, ...read } = parseAddress(formatAddress(asked, of), of)
          expect(refused).toEqual([])
          expect(JSON.parse(JSON.stringify(read))).toEqual(JSON.parse(JSON.stringify(asked)))
        },
      ),
    )
  })

  test('the page pays whole instances as the plan does', () => {
    const half = { ...candidate(), capacityRps: 100, pricePerHour: 1 }
    const sold = { ...half, bundles: [{ name: 'box', replicas: 2, perHour: 2 }] }
    expect(planFleet(sold, 300, 0)).toMatchObject({
      replicas: 3,
      pricePerMonth: 4 * 720,
      withSparePerMonth: 4 * 720,
    })
    expect(planFleet(half, 300, 0).pricePerMonth).toBe(3 * 720)
    expect(listSensitivity(sold, 300, 0)[0]!.pricePerMonth).toBe(4 * 720)
  })

  test('where GPUs are sold as instances, an instance’s price is what can be edited', () => {
    const own = {
      ...experiment,
      prices: parsePriceBook(
        'instances: {box: {gpu: T4, vcpus: 8, memoryGiB: 32, price: 2}}',
        'mine.yaml',
      ),
    }
    const prices = editPrice(own.prices, 'box', 3)
    expect(prices.instances).toMatchObject([{ name: 'box', perHour: 3 }])
    expect(prices.gpus.T4!.perHour).toBe(3)
    const { refused, whatIf } = parseAddress(
      formatAddress({ whatIf: { ...pickOwnQuestion(own), prices } }, own),
      own,
    )
    expect(refused).toEqual([])
    expect(whatIf.prices.instances).toEqual(prices.instances)
    expect(parseAddress('?price.T4=1', own).refused).toEqual(['price.T4=1'])
  })

  test('the own question has the shortest address, and what cannot be asked is named and left', () => {
    const own = { whatIf: pickOwnQuestion(experiment) }
    expect(formatAddress(own, experiment)).toBe('?experiment=bert-7f3a')
    const words =
      '?experiment=bert-7f3a&slo=-3&percentile=2&objective=fastest&demand=x&headroom=7&quality=good&price.T99=1&price.T4=-1&trial=0'
    const { refused, whatIf, trial } = parseAddress(words, experiment)
    expect(refused.map((part) => part.split('=')[0]).sort()).toEqual(
      [
        'slo',
        'percentile',
        'objective',
        'demand',
        'headroom',
        'quality',
        'price.T99',
        'price.T4',
        'trial',
      ].sort(),
    )
    expect(isOwnQuestion(experiment, whatIf)).toBe(true)
    expect(trial).toBeUndefined()
    expect(parseAddress('?slo=20,30', experiment).refused).toEqual(['slo=20,30'])
    expect(
      parseAddress('?objective=price-for-demand', experiment).refused,
      'without a demand',
    ).toEqual(['objective=price-for-demand'])
  })
})

test('between values that are no numbers there is no line', () => {
  const range = { low: 1, median: 1, high: 1 }
  const width = (values: readonly (number | string)[]) => {
    const effect = {
      parameter: 'p',
      importance: range,
      values: values.map((value) => ({ ...range, value })),
    }
    return (createEffectOption(effect, lightTheme).series as { lineStyle: { width: number } }[])[0]!
      .lineStyle.width
  }
  expect(width(['T4', 'L4'])).toBe(0)
  expect(width([1, 2])).toBeGreaterThan(0)
})

test('a saved page holds its data where no text of theirs can end the element', () => {
  const html =
    '<head><meta charset="utf-8"><link rel="stylesheet" href="/style.css"><script src="/app.js" defer></script></head><body></body>'
  const name = '</script><script>window.attacked=1</script><!--'
  const page = renderStandalonePage(
    { html, script: 'const a = "</script>"', style: '' },
    { experiment: { ...experiment, name }, trials: [], annotations: [] },
  )
  expect(page.match(/<script/g)).toHaveLength(2)
  expect(page.match(/<\/script>/g)).toHaveLength(2)
  const data = /id="snapshot">(.*?)<\/script>/.exec(page)![1]!
  expect(JSON.parse(data).experiment.name).toBe(name)
})

test('says in which SLO and prices experiments were asked otherwise', () => {
  expect(describeDifferences(experiment, experiment)).toEqual([])
  const { T4: _, ...gpus } = defaultPriceBook.gpus
  const prices = { ...defaultPriceBook, gpus: { ...gpus, L4: { perHour: 0.99, source: 'own' } } }
  const said = describeDifferences(
    { slo: replaceLimit(experiment.slo, 0, 20), prices },
    { ...experiment, prices: defaultPriceBook },
  )
  const listed = defaultPriceBook.gpus.L4!.perHour
  expect(said.sort()).toEqual([
    `L4 $0.99 / h instead of $${listed} / h`,
    'T4 no price instead of $0.35 / h',
    'p99 <= 20 ms instead of p99 <= 50 ms',
  ])
})
