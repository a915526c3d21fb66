/** Searches whose windows contradict the estimate of the queue model. */
import { expect, test } from 'vitest'
import { missing, type Script, searched, windowOf } from '../../testing/scripted-search.ts'

const posterior = (capacityRps: number, capacityCi90Rps: [number, number]) => ({
  capacityRps,
  capacityCi90Rps,
  computeProbabilityBelow: () => 0.5,
  refusesWhenFull: false,
  hasOutages: false,
  saturationRps: 100,
  saturationError: 0.5,
})

test('a queue model far below met rates does not prune the trial, and higher rates follow', async () => {
  const of = (rps: number) => ({
    ...posterior(rps, [0.99 * rps, 1.01 * rps]),
    computeProbabilityBelow: () => 1,
    saturationRps: 1000,
  })
  const against900 = (
    estimate: (windows: number) => ReturnType<typeof of>,
    window?: Script['window'],
  ) =>
    searched({
      options: { capacityToBeatRps: 900 },
      estimate: (_, windows) => estimate(windows),
      window,
    })
  const { asked, found } = await against900((windows) => of(windows < 2 ? 700 : 50))
  expect(asked.slice(1, 3).map(({ rateRps }) => rateRps)).toEqual([700, expect.closeTo(805, 6)])
  expect(found.outcome).toBe('budget')
  expect(found.capacityCi90Rps[1]).toBeGreaterThan(805)
  const upTo800 = (load: Parameters<typeof windowOf>[0]) =>
    load.rateRps > 800 ? missing(load) : windowOf(load)
  expect((await against900(() => of(700), upTo800)).found.outcome).toBe('pruned')
})

test('a pruned server with outages is bounded by violated rates or the capacity to beat', async () => {
  const against1200 = async (rps: number, hasOutages: boolean, window: Script['window']) => {
    const estimate = () => ({
      ...posterior(rps, [1, 190]),
      computeProbabilityBelow: () => 1,
      saturationRps: 1000,
      hasOutages,
    })
    return (await searched({ options: { capacityToBeatRps: 1200 }, estimate, window })).found
  }
  const upTo200 = (load: Parameters<typeof windowOf>[0]) =>
    load.rateRps > 200 ? missing(load) : windowOf(load)
  expect(await against1200(180, true, (load) => windowOf(load))).toMatchObject({
    outcome: 'pruned',
    capacityCi90Rps: [0, 1200],
  })
  expect(await against1200(600, true, (load) => missing(load))).toMatchObject({
    outcome: 'pruned',
    capacityCi90Rps: [0, 600],
  })
  expect(await against1200(180, false, upTo200)).toMatchObject({
    outcome: 'pruned',
    capacityCi90Rps: [0, 190],
  })
})

test('a search whose windows all violated the SLO does not converge, and tries lower rates', async () => {
  const { asked, found } = await searched({
    window: (load) => (load.rateRps > 400 ? missing(load) : windowOf(load)),
  })
  expect(asked.slice(1).map(({ rateRps }) => rateRps)).toEqual(
    [600, 540, 486, 437.4, 394.2].map((rps) => expect.closeTo(rps, 6)),
  )
  expect(found).toMatchObject({
    outcome: 'budget',
    bounds: 'both',
    capacityRps: expect.closeTo(Math.sqrt(394 * 438), 0),
  })
  expect(found.capacityCi90Rps).toEqual([394, 606])
})

test('the next rate is at least half of the lowest rate so far, the start of the sweep included', async () => {
  const estimate = () => ({ ...posterior(2, [1, 3]), saturationRps: 1000 })
  const { asked } = await searched({
    estimate,
    window: (load) => missing(load),
    effort: { windows: 10, budgetS: 10, windowS: 1 },
  })
  expect(asked.slice(1, 5).map(({ rateRps }) => rateRps)).toEqual([200, 100, 50, 25])
})
