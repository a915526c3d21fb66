import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { packTrial, unpackTrial } from '../../reports/dashboard/data/page-data.ts'
import { Ranker } from '../../reports/dashboard/data/ranking.ts'
import { listCandidates } from '../../reports/recommendation/candidates.ts'
import { claimsOfMeasuring } from '../../reports/recommendation/claims.contract.ts'
import { describeStatus } from '../../reports/recommendation/describe-status.ts'
import type { Candidate, Recommendation } from '../../reports/recommendation/types.ts'
import {
  describeRecommended,
  listVerdictLines,
} from '../../reports/recommendation/verdict-lines.ts'
import {
  formatCapacity,
  formatLatencyAtCapacity,
  formatLatencyValue,
} from '../../reports/recommendation/words.ts'
import {
  type RecommendationDocument,
  toDocument,
} from '../../reports/report/recommendation-json.ts'
import { gpuCatalogue } from '../../trials/devices/catalogue.ts'
import { openStore } from '../../trials/store/index.ts'
import { parseCsv } from '../../trials/testing/parsed-csv.ts'
import { plan } from '../cli/commands/plan/run.ts'
import { reopenExperiment } from '../cli/commands/reopen-experiment.ts'
import { report } from '../cli/commands/report/run.ts'
import { show } from '../cli/commands/show/run.ts'
import { spec } from '../cli/commands/spec/run.ts'
import { loadExperiment } from '../config/load-experiment.ts'
import { defaults } from '../config/names.ts'
import { createExperimentView } from '../dashboard/experiment-view.ts'
import { histories } from './histories.contract.ts'
import type { History } from './history.contract.ts'

const folder = mkdtempSync(join(tmpdir(), 'tune-truth-'))
const db = join(folder, 'tune.db')
const gpus = gpuCatalogue.map((gpu) => gpu.name)
const host = { cwd: folder, machine: { cpuCores: 8, gpus } }

const idOf = (history: History) => `h${histories.indexOf(history)}`

beforeAll(async () => {
  const store = await openStore(db)
  for (const history of histories) {
    const flags = { model: 'bert', slo: '50ms', backend: 'simulated', ...history.flags }
    const { document } = loadExperiment({ flags, environment: {}, ...host })
    const provenance = history.provenance ?? 'measured'
    const id = idOf(history)
    await store.create({
      id,
      name: id,
      createdAt: '2026-11-20T10:00:00.000Z',
      spec: document,
      seed: 1,
      provenance,
    })
    for (const trial of history.trials) await store.append(id, trial)
    await store.finish(id, 'done', {
      confidence: { probabilityWithinTolerance: 0.96, tolerance: 0.05, statement: '' },
    })
  }
  await store.close()
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** What a command of the program prints, and its exit code (of an error that it throws, too). */
async function printed(command: () => Promise<number>): Promise<{ code: number; text: string }> {
  let text = ''
  const spy = vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => {
    text += String(chunk)
    return true
  })
  try {
    return { code: await command(), text }
  } catch (error) {
    return { code: (error as { exitCode?: number }).exitCode ?? 1, text: String(error) }
  } finally {
    spy.mockRestore()
  }
}

function once<T>(make: () => Promise<T>): () => Promise<T> {
  let made: Promise<T> | undefined
  return () => {
    made ??= make()
    return made
  }
}

const oneLine = (text: string) => text.replace(/\s+/g, ' ')

describe.each(histories)('$what', (history) => {
  const id = idOf(history)
  const asked = { db, ...history.asked }
  let recommendation: Recommendation
  let document: RecommendationDocument
  let candidates: readonly Candidate[]
  /** What `tune show` prints, and the text of a report: made once for all that look at them. */
  const shown = once(() => printed(() => show(id, asked)))
  const reports = {
    md: once(() => writeReport('md')),
    html: once(() => writeReport('html')),
    csv: once(() => writeReport('csv')),
  }
  async function writeReport(ending: string): Promise<string> {
    const out = join(folder, `${id}.${ending}`)
    await printed(() => report(id, { ...asked, out }))
    return readFileSync(out, 'utf8')
  }
  const named = ({ status }: Candidate) => describeStatus(status, recommendation.provenance).name

  beforeAll(async () => {
    recommendation = (await reopenExperiment(id, asked)).recommendation
    document = toDocument(recommendation)
    candidates = listCandidates(recommendation)
  })

  test('comes to what it should', () => {
    expect(recommendation.conclusion, recommendation.verdict).toBe(history.conclusion)
    expect(Object.fromEntries(candidates.map((c) => [c.trial, c.status]))).toEqual(history.statuses)
    expect(recommendation.best?.trial).toBe(history.best?.trial ?? recommendation.best?.trial)
    if (history.best)
      expect(recommendation.best?.capacityRps).toBeCloseTo(history.best.capacityRps, 6)
    if (history.best?.sloMs)
      expect(recommendation.best).toMatchObject({
        sloMsAtCapacity: history.best.sloMs,
        sloMsFrom: 'measured',
      })
    if (history.exit === 1 || history.exit === 3) expect(recommendation.best).toBeUndefined()
    if (history.caveat) expect(recommendation.caveats.join('\n')).toMatch(history.caveat)
    expect(recommendation.verdict.startsWith('Best found, NOT confirmed: ')).toBe(
      history.exit === 4,
    )
    // What was missed is never what is recommended, and an "at most" is no rank.
    for (const c of candidates) {
      if (c.missed) expect(c.capacityRps).toBeLessThan(c.missed.rateRps)
      if (c.bound === 'upper') expect(c.feasible).toBe(false)
      if (c.sloMsFrom === 'measured' && c.feasible)
        expect(c.sloMsAtCapacity).toBeLessThanOrEqual(recommendation.slo.limitMs)
    }
  })

  test('exit code, JSON and terminal', async () => {
    expect(await printed(() => show(id, { ...asked, json: true }))).toEqual({
      code: history.exit,
      text: `${JSON.stringify(document, null, 2)}\n`,
    })
    const { code, text } = await shown()
    expect(code).toBe(history.exit)
    const { best, slo } = recommendation
    const said = oneLine(text)
    if (!best) {
      expect(said).toContain(recommendation.verdict)
      return
    }
    const { heading, figures, slo: met, cheapest } = listVerdictLines(recommendation)
    for (const part of [`${heading}: ${best.label}`, figures, met, cheapest])
      expect(said).toContain(oneLine(part!))
    expect(cheapest).toContain(
      recommendation.provenance === 'imported'
        ? 'there was no search'
        : history.asked
          ? 'not assessed'
          : '96 % likely',
    )
    // The verdict is what remains on the screen.
    expect(text.trimEnd().split('\n').slice(-8).join('\n')).toContain(`${heading}: `)
    // What does not fit beside it stands below it.
    const lines = text.split('\n')
    const from = lines.findIndex((line) => line.startsWith('*') || line.startsWith('★'))
    const to = lines.findIndex((line, i) => i > from && !line.startsWith('     '))
    const told = oneLine(lines.slice(from, to).join('\n'))
    for (const part of [
      best.label,
      named(best),
      formatCapacity(best),
      formatLatencyValue(slo, best),
    ])
      expect(told).toContain(oneLine(part))
  })

  test('the recommended row is the cheapest of its table, or is said to be statistically tied', async () => {
    const { best, alternatives } = recommendation
    if (!best) return
    const cheaper = alternatives.filter((c) => c.feasible && c.cost < best.cost)
    for (const { whyNot } of cheaper)
      expect(whyNot).toMatch(/statistically tied|failed its confirmation/)
    const { text } = await shown()
    const note = describeRecommended(recommendation)
    expect(note.includes('(')).toBe(cheaper.length > 0)
    for (const surface of [text, (await reports.md()).replaceAll('\\', '')])
      expect(oneLine(surface)).toContain(note)
    // Ranked by what is shown: costs beside one another are at safe capacities.
    const ranked = alternatives.filter(({ feasible }) => feasible).map(({ cost }) => cost)
    expect(ranked).toEqual([...ranked].sort((a, b) => a - b))
    for (const c of candidates)
      if (c.estimateRps !== undefined) expect(c.capacityRps).toBeLessThan(c.estimateRps)
  })

  test('CSV', async () => {
    const [head = [], ...rows] = parseCsv(await reports.csv())
    const cell = (trial: number, name: string) =>
      rows.find((row) => row[0] === String(trial))?.[head.indexOf(name)]
    for (const c of candidates) {
      expect(cell(c.trial, 'status')).toBe(c.status)
      if (c.status === 'inconclusive' || c.status === 'failed') {
        for (const name of ['feasible', 'safe_capacity_rps', 'estimate_rps', 'slo_ms'])
          expect(cell(c.trial, name)).toBe('')
        continue
      }
      expect(cell(c.trial, 'feasible')).toBe(String(c.feasible))
      if (cell(c.trial, 'state') !== 'complete') {
        expect(cell(c.trial, 'safe_capacity_rps')).toBe('')
        continue
      }
      expect(Number(cell(c.trial, 'safe_capacity_rps'))).toBeCloseTo(c.capacityRps, 6)
      expect(Number(cell(c.trial, 'estimate_rps'))).toBeCloseTo(c.estimateRps ?? c.capacityRps, 6)
      expect(cell(c.trial, 'slo_ms_from')).toBe(c.sloMsFrom)
    }
  })

  test('dashboard: the page ranks what it was sent to the same', async () => {
    const { record, trials, experiment } = await reopenExperiment(id, asked)
    const { dashboard } = await createExperimentView(record, host)
    const { slo, objective } = experiment
    const page = JSON.parse(JSON.stringify(dashboard)) as typeof dashboard
    const sent = trials.map(packTrial).map(unpackTrial)
    const question = { slo, objective, prices: page.prices, minQuality: page.minQuality }
    // What was measured, of which the page has no word, goes into the files that the server writes.
    const { measuredWith, ...ranked } = document
    expect(measuredWith === undefined).toBe((document.best ?? document.nearest) === undefined)
    expect(toDocument(new Ranker(page).recommend(sent, question))).toEqual(ranked)
  })

  test('HTML and Markdown', async () => {
    for (const ending of ['md', 'html'] as const) {
      const text = oneLine(
        (await reports[ending]())
          .replace(/<svg[\s\S]*?<\/svg>/g, '')
          .replace(/<[^>]+>/g, ' ')
          .replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
          .replaceAll('\\', ''),
      )
      expect(text).toContain(recommendation.verdict)
      for (const c of candidates.filter((c) => c.feasible || !recommendation.best))
        expect(text).toContain(`${c.label} ${ending === 'md' ? '| ' : ''}${named(c)}`)
      const { best, slo } = recommendation
      if (best)
        for (const part of [
          `Status: ${named(best)}`,
          formatCapacity(best),
          formatLatencyAtCapacity(slo, best),
        ])
          expect(text).toContain(part)
    }
  })

  const testSimulated = history.provenance === 'simulated' ? test : () => {}
  testSimulated('claims no load test', async () => {
    const texts = [
      await shown(),
      await printed(() => spec(id, { ...asked, target: 'kubernetes', modelUri: 's3://bucket/m' })),
      await printed(() => plan(id, { ...planFlags, ...asked })),
    ].map(({ text }) => text)
    for (const ending of ['md', 'html'] as const)
      texts.push((await reports[ending]()).replace(/<svg[\s\S]*?<\/svg>/g, ''))
    for (const text of texts) {
      expect(oneLine(text)).toMatch(/simulated/i)
      expect(oneLine(text)).not.toMatch(claimsOfMeasuring)
    }
  })

  test('spec and plan', async () => {
    const { best, slo } = recommendation
    const deployed = await printed(() =>
      spec(id, { ...asked, target: 'kubernetes', modelUri: 's3://bucket/model' }),
    )
    const planned = await printed(() => plan(id, { ...planFlags, ...asked, json: true }))
    if (!best) {
      expect([deployed.code, planned.code]).toEqual([history.exit, history.exit])
      return
    }
    // A demand sizes the replicas of a spec; it does not rank there.
    expect(deployed.text).toContain(`# Status: ${named(best)}`)
    expect(deployed.text).toContain(formatCapacity(best))
    expect(deployed.text).toContain(
      `trial ${best.trial}, ${named(best)}: ${formatLatencyAtCapacity(slo, best)}`,
    )
    if (!history.asked?.rps) expect(oneLine(deployed.text)).toContain(recommendation.verdict)
    const { units } = JSON.parse(planned.text)
    expect(units[0]).toMatchObject({ trial: best.trial, status: best.status })
    expect(units[0].capacityRps).toBeCloseTo(best.capacityRps, 6)
    const { rps } = asked
    if (rps === undefined) return
    // The demand takes as many replicas everywhere: whole ones of the safe capacity.
    const { replicas } = best
    const headroom = 'headroom' in recommendation.objective ? recommendation.objective.headroom : 0
    expect(replicas).toBe(Math.ceil(Number(rps) / (best.capacityRps * (1 - headroom))))
    expect(recommendation.verdict).toContain(`${replicas} replicas for `)
    expect(deployed.text).toMatch(new RegExp(`#   replicas ${replicas} .*safe capacity x`))
    const fleet = { ...planFlags, ...asked, demand: rps, zones: '1', json: true }
    const scaled = JSON.parse((await printed(() => plan(id, fleet))).text)
    expect(scaled.units[0].months[0].replicas).toBe(replicas)
  })
})

const planFlags = {
  demand: '100',
  growth: '0%',
  zones: '3',
  reaction: '30s',
  scaleDown: '5min',
  minReplicas: '1',
  headroom: defaults.headroom,
  prices: [],
}

test('there are thirty of them, and every status and conclusion is among them', () => {
  expect(histories.length).toBeGreaterThanOrEqual(30)
  expect(new Set(histories.flatMap((h) => Object.values(h.statuses))).size).toBe(8)
  expect(new Set(histories.map((h) => h.conclusion)).size).toBe(6)
})
