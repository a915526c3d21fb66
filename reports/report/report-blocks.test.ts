import { describe, expect, test } from 'vitest'
import type { Measurement } from '../../profiler/model/measurement.ts'
import { parseCsv } from '../../trials/testing/parsed-csv.ts'
import { toHtml } from '../document/html.ts'
import { toMarkdown, toText } from '../document/markdown.ts'
import { renderSvg } from '../document/svg.ts'
import { money } from '../format.ts'
import { createPatternDemand, createSteadyDemand } from '../plan/demand.ts'
import { formatPlanCsv, formatPlanJson, renderPlan } from '../plan/plan-blocks.ts'
import { type PlanInput, planCapacity } from '../plan/plan-capacity.ts'
import { rankCandidates } from '../recommendation/ranking.ts'
import { recommend } from '../recommendation/recommend.ts'
import { price, sampleInput, sampleTrials, slo } from '../samples.contract.ts'
import { recommendationDocument } from './recommendation-json.ts'
import { type ReportInput, renderReport } from './report-blocks.ts'

const input: ReportInput = {
  ...sampleInput,
  name: 'bert',
  recommendation: recommend(sampleInput),
  specification: 'model: bert\nslo: 50ms\n',
  environment: ['tune 0.1.0'],
}
const chart: NonNullable<Parameters<typeof renderReport>[1]> = (option) => renderSvg(option)
/** Tags in order; attributes are checked on their own. */
const tagsOf = (html: string) =>
  [...html.matchAll(/<(\/?)([a-zA-Z]+)/g)].map(
    ([, close, name]) => `${close}${name!.toLowerCase()}`,
  )

describe('the report', () => {
  test('tells verdict, reasons, curves, capacity, method, what was skipped, and all trials', async () => {
    const html = toHtml('bert', await renderReport(input, chart))
    for (const part of [
      input.recommendation.verdict.slice(0, 30),
      'Bottleneck: the GPU (GPU busy 93 %',
      'Pareto front',
      'Load curves',
      'per month (30 days)',
      'Runners-up',
      'open-loop',
      'out of memory: 4.6 GiB',
      'All 6 trials',
      'slo: 50ms',
      'emulated: real servers',
    ]) {
      expect(html).toContain(part)
    }
    expect(html.match(/<svg/g)).toHaveLength(3)
    expect(html).not.toMatch(/NaN|undefined|Infinity|\[object/)
  })

  test('says of a trial that violated the SLO at every rate below which one its capacity is', async () => {
    const violated = sampleTrials.flatMap((trial) => {
      if (trial.state !== 'complete' || trial.number !== 2) return []
      const measurement: Measurement = {
        ...trial.measurement,
        outcome: 'budget',
        bounds: 'upper',
        capacityRps: 0,
        capacityCi90Rps: [0, 250],
        points: [],
      }
      return [{ ...trial, number: 99, measurement }]
    })
    const html = toHtml(
      'bert',
      await renderReport({ ...input, trials: [...sampleTrials, ...violated] }, chart),
    )
    expect(html).toContain('below 250 req/s')
    expect(html).not.toMatch(/<td[^>]*>99<\/td>[^\n]*>0 req\/s/)
  })

  test('has the values of a metric that is ranked by, of any sign, on charts too, and those of the default', async () => {
    const trials = sampleTrials.map((t, i) =>
      t.state === 'complete'
        ? {
            ...t,
            measurement: { ...t.measurement, metrics: [{ name: 'depth', value: 1 - 2 * i }] },
          }
        : t,
    )
    const asked = {
      ...sampleInput,
      trials,
      objective: { kind: 'max-metric', metric: 'depth' },
    } as const
    const recommendation = recommend(asked)
    const html = toHtml('bert', await renderReport({ ...input, ...asked, recommendation }, chart))
    expect(recommendation).toMatchObject({
      best: { cost: -1 },
      defaultCandidate: { feasible: true },
    })
    expect(recommendationDocument.parse(JSON.parse(JSON.stringify(recommendation)))).toMatchObject({
      best: { metrics: { depth: 1 } },
    })
    expect(html).toMatch(/Metrics of the server at [\d.]+ req\/s: depth 1\./)
    expect(html).toMatch(/<th[^>]*>depth<\/th>/)
    expect(html).toMatch(/<td[^>]*>-3<\/td>/)
    expect(html).not.toMatch(/NaN|undefined|Infinity|\[object/)
    const worse = recommend({ ...asked, objective: { kind: 'min-metric', metric: 'depth' } })
    const text = toText(
      await renderReport(
        { ...input, ...asked, objective: worse.objective, recommendation: worse },
        undefined,
      ),
    )
    expect(text).toMatch(/The baseline \(.*\) serves [\d.]+ req\/s: depth 1\./)
  })

  test('is one file: nothing is fetched, nothing runs', async () => {
    const html = toHtml('bert', await renderReport(input, chart))
    expect(html).not.toMatch(
      /<script|<link|<iframe|<object|<embed|\ssrc=|url\((?!#)|@import|\son\w+=/i,
    )
    expect(
      [...html.matchAll(/(?:href|xmlns\S*)="([^"]*)"/g)].every(
        ([, target]) => target!.startsWith('http://www.w3.org/') || target!.startsWith('#'),
      ),
    ).toBe(true)
    expect(html).toContain(`default-src 'none'`)
  })

  test('cannot be broken out of by names, labels, errors or logs', async () => {
    const evil = `"><img src=x onerror=alert(1)><script>alert(1)</script></svg>\`|*_[x](javascript:1)\u001b[31m'`
    const trials = sampleTrials.map((t) => ({
      ...t,
      why: evil,
      ...(t.state === 'failed' ? { error: evil } : {}),
      ...(t.state === 'infeasible' ? { detail: evil } : {}),
    }))
    const bad: ReportInput = {
      ...input,
      trials,
      name: evil,
      label: () => evil,
      specification: `${evil}\n\`\`\`\n`,
      environment: [evil],
    }
    const blocks = await renderReport(
      {
        ...bad,
        recommendation: recommend({ ...sampleInput, trials, label: () => evil, notices: [evil] }),
      },
      chart,
    )
    const html = toHtml(evil, blocks)
    const tags = tagsOf(html)
    expect(tags.filter((t) => /script|img|iframe/.test(t))).toEqual([])
    expect(tags.filter((t) => t === 'svg')).toHaveLength(tags.filter((t) => t === '/svg').length)
    expect(html.replace(/"[^"]*"/g, '""')).not.toMatch(/<[^>]*\sonerror=/)
    const markdown = toMarkdown(blocks)
    expect(markdown.replace(/^(`{3,})\n[\s\S]*?^\1$/gm, '')).not.toMatch(/(^|[^\\])<(img|script)/m)
    expect(markdown).not.toContain('\u001b')
    expect(toText(blocks)).not.toContain('\u001b')
  })

  test('of an experiment that found nothing says so, without charts of nothing', async () => {
    const trials = sampleTrials.slice(3)
    const recommendation = recommend({ ...sampleInput, trials })
    const html = toHtml('bert', await renderReport({ ...input, trials, recommendation }, chart))
    expect(html).toContain('No configuration meets p99')
    expect(html).toContain('nearest')
    expect(html).not.toContain('<svg')
    expect(html).not.toMatch(/NaN|undefined|Infinity/)
  })

  test('as Markdown has its tables whole', async () => {
    const markdown = toMarkdown(await renderReport(input))
    const lines = markdown.split('\n').filter((l) => l.startsWith('|'))
    expect(lines.length).toBeGreaterThan(15)
    for (const line of lines) expect(line.endsWith(' |')).toBe(true)
    expect(markdown).toContain('| 1 | default |')
  })
})

describe('the capacity plan in words', () => {
  const units = rankCandidates(sampleTrials, sampleInput)
    .filter((j) => j.candidate.feasible)
    .map((j) => ({
      label: j.candidate.label,
      trial: j.candidate.trial,
      status: j.candidate.status,
      capacityRps: j.candidate.capacityRps,
      curve: j.curve,
      limitMs: slo.limitMs,
      percentile: slo.percentile,
      startupSeconds: 30,
      nodeSeconds: 0,
      replicasPerNode: 4,
      resources: { cpuCores: 2, memoryMiB: 4096, gpu: 'T4', gpus: 1, gpuShare: 0.25 },
      prices: [
        { name: 'on-demand', currency: 'USD', perHour: price(j.candidate.configuration) },
        { name: 'spot', currency: 'USD', perHour: price(j.candidate.configuration) * 0.4 },
      ],
      wholeGpuPerHour: price({ ...j.candidate.configuration, gpuMemoryPercent: 100 }),
    }))
  const planInput: PlanInput = {
    provenance: 'measured',
    units,
    slo,
    demand: createPatternDemand('daily', 1000),
    headroom: 0.2,
    growthPerMonth: 0.05,
    months: 12,
    zones: 3,
    surroundings: { timeoutSeconds: 10, reactionSeconds: 30 },
    minReplicas: 1,
    existing: { trial: 2, replicas: 6 },
  }

  test('answers what was asked, on the terminal, in Markdown and in HTML', async () => {
    const plan = planCapacity(planInput)
    const blocks = await renderPlan(plan, ['figures are emulated'], chart)
    const text = toText(blocks)
    for (const part of [
      '7 replicas for pattern daily',
      'per month',
      'with a spare',
      'Growth',
      'violates the SLO from month',
      'price list "spot"',
      'sharing the GPU saves',
      'loss of one of 3 zones',
      'aws',
      'reserved, 1 year',
      'Which is cheapest as demand grows',
      'evenly',
      'minutes of SLO violation',
      'as configured',
      'no violations',
    ])
      expect(text).toContain(part)
    expect(text).not.toMatch(/NaN|undefined|Infinity/)
    expect(toMarkdown(blocks)).toContain('| configuration | status | replicas |')
    expect(toHtml('plan', blocks)).toContain('<svg')
  })

  test('a fleet under several limits is at a part of them at its peak, not at a latency', async () => {
    const limits = [
      { metric: 'ttft', limitMs: 50 },
      { metric: 'tpot', limitMs: 5 },
    ] as const
    const text = toText(
      await renderPlan(planCapacity({ ...planInput, slo: { ...slo, limits } }), []),
    )
    expect(text).toMatch(/ % of the limits +\$/)
    expect(toText(await renderPlan(planCapacity(planInput), []))).not.toContain('of the limits')
  })

  test('gives every month in CSV, and every figure in JSON', () => {
    const plan = planCapacity(planInput)
    const [head, ...rows] = parseCsv(formatPlanCsv(plan))
    expect(rows).toHaveLength(12 * units.length)
    expect(Number(rows[0]![head!.indexOf('replicas')])).toBe(plan.units[0]!.months[0]!.replicas)
    const json = JSON.parse(formatPlanJson(plan))
    expect(json).toMatchObject({
      schema: 'tune.plan/v1',
      settings: { months: 12, headroom: 0.2 },
      existing: { replicas: 6 },
    })
    expect(json.units[0].curve).toBeUndefined()
  })

  test('the first sentence names no price at which the SLO is lost', async () => {
    const spike = { what: 'a spike', spans: [50, 9000, 50].map((rps) => ({ rps, seconds: 1800 })) }
    const plan = planCapacity({ ...planInput, demand: spike, months: 1, growthPerMonth: 0 })
    const [best] = plan.units
    expect(best!.months[0]!.autoscaled.lostMinutes).toBeGreaterThan(5)
    expect(best!.months[0]!.autoscaledPerMonth).toBeLessThan(0.9 * best!.months[0]!.staticPerMonth)
    const first = toText(await renderPlan(plan, []))
      .split('\n')
      .find((line) => line.includes('a spike'))!
    expect(first).not.toContain(money(best!.months[0]!.autoscaledPerMonth))
    expect(first.includes('when autoscaled without SLO violations')).toBe(
      plan.scaling.lossless !== undefined,
    )
  })

  test('says the published sum', async () => {
    const unit = {
      ...units[0]!,
      label: 'one instance',
      capacityRps: 2,
      curve: undefined,
      wholeGpuPerHour: undefined,
      prices: [{ name: 'list', currency: 'USD', perHour: 3.06 }],
    }
    const text = toText(
      await renderPlan(
        planCapacity({
          ...planInput,
          units: [unit],
          demand: createSteadyDemand(100),
          headroom: 0,
          months: 1,
          growthPerMonth: 0,
          existing: undefined,
        }),
        [],
      ),
    )
    expect(text).toContain('one instance: 50 replicas for a steady 100 req/s, $110,160 per month')
  })
})
