import { expect, test } from 'vitest'
import { missing, type Script, searched, windowOf } from '../../testing/scripted-search.ts'
import {
  boundByEvidence,
  capToObservedRates,
  computeShareOfLoops,
  describeShareOfLoops,
  widenByShareOfLoops,
} from './reported-interval.ts'

const posterior = (capacityRps: number, capacityCi90Rps: [number, number]) => ({
  capacityRps,
  capacityCi90Rps,
  below: () => 0.5,
  refusesWhenFull: false,
  hasOutages: false,
  hasFadingOutages: false,
  saturationRps: 100,
  saturationError: 0.5,
})

test('a posterior near what was served stays as it is', () => {
  expect(capToObservedRates(posterior(1000, [900, 1100]), 1050)).toMatchObject({
    capacityRps: 1000,
    capacityCi90Rps: [900, 1100],
  })
})

test('what goes far beyond the highest rate served is cut: the median a little beyond it, the interval around that', () => {
  const { capacityRps: medianRps, capacityCi90Rps: ci90Rps } = capToObservedRates(
    posterior(6834, [1981, 14880]),
    1772,
  )
  expect(medianRps).toBeCloseTo(2037.8, 1)
  expect(ci90Rps[0]).toBe(1772)
  expect(ci90Rps[1]).toBeCloseTo(2658, 0)
})

test('of a posterior that lies beyond all that was served, what was served is the lower bound', () => {
  const { capacityRps: medianRps, capacityCi90Rps: ci90Rps } = capToObservedRates(
    posterior(9000, [8000, 9900]),
    1000,
  )
  expect(medianRps).toBeCloseTo(1150, 6)
  expect(ci90Rps[0]).toBe(1000)
  expect(ci90Rps[1]).toBeCloseTo(1500, 6)
})

test('a server that open windows met slower than closed loops may be slower still: the interval has as much again, and says so', () => {
  const seen = posterior(90, [80, 95])
  const loops = { rps: 125, answers: 100 }
  expect(widenByShareOfLoops(seen, loops).capacityCi90Rps).toEqual([64, 95])
  expect(describeShareOfLoops(computeShareOfLoops(seen, loops)!)).toContain(
    'reached 80 % of the throughput of closed loops',
  )
})

test('nothing is lost within a tenth, or within chance of the loop, or by a server that refuses', () => {
  const seen = posterior(90, [80, 95])
  const loops = { rps: 125, answers: 100 }
  expect(widenByShareOfLoops(seen, { ...loops, rps: 110 }).capacityCi90Rps).toEqual([80, 95])
  expect(computeShareOfLoops({ ...seen, refusesWhenFull: true }, loops)).toBeUndefined()
  // Four standard errors of 0.5 / √64 are a quarter.
  expect([
    computeShareOfLoops(seen, { ...loops, answers: 64 }),
    computeShareOfLoops(seen, { ...loops, answers: 65 }),
  ]).toEqual([undefined, 0.8])
})

test('of a queue model that lies beyond rates which all missed, what held and what did not is the figure', () => {
  const held = { metRps: 40, ciMetRps: 0 }
  const model = posterior(150, [140, 160])
  expect(boundByEvidence(model, held)).toMatchObject({
    capacityRps: 150,
    capacityCi90Rps: [40, 160],
  })
  expect(boundByEvidence(model, { ...held, ciViolatedRps: 141 })).toMatchObject({
    capacityRps: 150,
  })
  expect(boundByEvidence(model, { ...held, ciViolatedRps: 90 })).toMatchObject({
    capacityRps: 60,
    capacityCi90Rps: [40, 160],
  })
  expect(boundByEvidence(model, { metRps: 0, ciMetRps: 0, ciViolatedRps: 90 })).toMatchObject({
    capacityRps: 0,
    known: 'bound above',
  })
})

test('of a queue model that lies far below a rate that was kept, the interval reaches beyond that, and the figure lies between', () => {
  const kept = { metRps: 165, ciMetRps: 0, credibleMetRps: 165 }
  expect(boundByEvidence(posterior(5.3, [4, 6]), kept)).toMatchObject({
    capacityRps: expect.closeTo(29.6, 1),
    capacityCi90Rps: [4, expect.closeTo(189.75, 6)],
  })
  // Few requests tell of one at twice as much.
  const briefly = { metRps: 47, ciMetRps: 0, brieflyMetRps: 47 }
  expect(boundByEvidence(posterior(9, [3, 23]), briefly).capacityCi90Rps).toEqual([
    3,
    expect.closeTo(54.05, 6),
  ])
  expect(boundByEvidence(posterior(9, [3, 24]), briefly).capacityCi90Rps).toEqual([3, 24])
  expect(boundByEvidence(posterior(140, [130, 132.1]), kept)).toMatchObject({
    capacityRps: 140,
    capacityCi90Rps: [130, 132.1],
  })
})

test('a search whose queue model lies far below what windows kept is not beaten by it, and looks beyond what they kept', async () => {
  const of = (rps: number) => ({
    ...posterior(rps, [0.99 * rps, 1.01 * rps]),
    below: () => 1,
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
  expect((await against900(() => of(700), upTo800)).found.outcome).toBe('beaten')
})

test('a server that has outages and has lost is bounded by what windows missed, or what it had to beat: how rare its outages are a few seconds do not tell', async () => {
  const against1200 = async (rps: number, hasOutages: boolean, window: Script['window']) => {
    const estimate = () => ({
      ...posterior(rps, [1, 190]),
      below: () => 1,
      saturationRps: 1000,
      hasOutages,
    })
    return (await searched({ options: { capacityToBeatRps: 1200 }, estimate, window })).found
  }
  const upTo200 = (load: Parameters<typeof windowOf>[0]) =>
    load.rateRps > 200 ? missing(load) : windowOf(load)
  expect(await against1200(180, true, (load) => windowOf(load))).toMatchObject({
    outcome: 'beaten',
    capacityCi90Rps: [0, 1200],
  })
  expect(await against1200(600, true, (load) => missing(load))).toMatchObject({
    outcome: 'beaten',
    capacityCi90Rps: [0, 600],
  })
  expect(await against1200(180, false, upTo200)).toMatchObject({
    outcome: 'beaten',
    capacityCi90Rps: [0, 190],
  })
})

test('a search whose every window at the queue model’s rates missed has not converged, and looks for one that holds', async () => {
  const { asked, found } = await searched({
    window: (load) => (load.rateRps > 400 ? missing(load) : windowOf(load)),
  })
  expect(asked.slice(1).map(({ rateRps }) => rateRps)).toEqual(
    [600, 540, 486, 437.4, 394.2].map((rps) => expect.closeTo(rps, 6)),
  )
  expect(found).toMatchObject({
    outcome: 'budget',
    known: 'held',
    capacityRps: expect.closeTo(Math.sqrt(394 * 438), 0),
  })
  expect(found.capacityCi90Rps).toEqual([394, 606])
})

test('a search asks for no less than half of its lowest rate so far, the first one of its sweep too', async () => {
  const estimate = () => ({ ...posterior(2, [1, 3]), saturationRps: 1000 })
  const { asked } = await searched({
    estimate,
    window: (load) => missing(load),
    effort: { windows: 10, budgetS: 10, windowS: 1 },
  })
  expect(asked.slice(1, 5).map(({ rateRps }) => rateRps)).toEqual([200, 100, 50, 25])
})
