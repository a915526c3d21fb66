/** Exports of an experiment under the SLO, objective and prices of the page. */
import { z } from 'zod'
import { latencyMetricNames } from '../../profiler/model/latency-metrics.ts'
import type { Assets } from '../../reports/dashboard/bundle.ts'
import { pickOwnQuestion, Ranker, type WhatIf } from '../../reports/dashboard/data/ranking.ts'
import { renderStandalonePage } from '../../reports/dashboard/standalone.ts'
import { toHtml } from '../../reports/document/html.ts'
import { renderSvg } from '../../reports/document/svg.ts'
import { conclusions } from '../../reports/recommendation/types.ts'
import { objectiveDocument } from '../../reports/report/objective-document.ts'
import { createRecommendationJson } from '../../reports/report/recommendation-json.ts'
import { renderReport } from '../../reports/report/report-blocks.ts'
import { renderTrialsCsv } from '../../reports/report/trials-csv.ts'
import { loadTarget, renderSpec, specTargets } from '../../reports/specs/index.ts'
import { getDemand } from '../../search/objective.ts'
import { applyOwnPod } from '../artifacts/own-pod.ts'
import { resolveServing } from '../artifacts/serving.ts'
import { renderStageSpecs } from '../artifacts/stage-servings.ts'
import { resolveMeasuredWith } from '../config/measured-with.ts'
import { UserError } from '../exit-codes.ts'
import type { ExperimentView } from './experiment-view.ts'
import { MalformedRequest } from './guard.ts'
import type { Feed } from './store-watcher.ts'

type Current = Feed & { readonly view: ExperimentView }

const positive = z.number().positive().finite()
const metric = z.enum(latencyMetricNames)
const price = z.object({ perHour: z.number().nonnegative().finite(), source: z.string() })
const questionSchema = z.object({
  slo: z.object({
    percentile: z.number().gt(0).lt(1),
    limitMs: positive,
    maxErrorRate: z.number().min(0).max(1),
    metric: metric.optional(),
    limits: z
      .array(z.object({ metric, limitMs: positive }))
      .min(2)
      .optional(),
  }),
  objective: objectiveDocument,
  prices: z.object({
    name: z.string(),
    currency: z.string(),
    gpus: z.record(z.string(), price),
    vcpu: price,
    memoryGiB: price,
  }),
  minQuality: z.number().optional(),
})

/**
 * Parses the what-if question of a request, or the experiment's own.
 * @throws MalformedRequest with all invalid fields
 */
export function parseQuestion(text: unknown, { dashboard }: ExperimentView): WhatIf {
  if (text === undefined) return pickOwnQuestion(dashboard)
  if (typeof text !== 'string') throw new MalformedRequest('view appears more than once')
  let data: unknown
  try {
    data = JSON.parse(text)
  } catch (error) {
    throw new MalformedRequest(`view is not JSON: ${(error as Error).message}`)
  }
  const parsed = questionSchema.safeParse(data)
  if (parsed.success) return parsed.data
  throw new MalformedRequest(
    `view: ${parsed.error.issues.map((i) => `${i.path.join('.')}: ${i.message}`).join('; ')}`,
  )
}

interface ExportFile {
  readonly type: string
  readonly text: string
}

/** File name → function that renders it. */
export const exportFormats: Readonly<
  Record<
    string,
    (current: Current, whatIf: WhatIf, assets: Assets) => ExportFile | Promise<ExportFile>
  >
> = {
  'recommendation.json': ({ view, trials }, whatIf) => ({
    type: 'application/json; charset=utf-8',
    text: createRecommendationJson(
      new Ranker(view.dashboard).recommend(trials, whatIf, (configuration) =>
        resolveMeasuredWith(view.experiment, view.dashboard.provenance, configuration),
      ),
    ),
  }),
  'trials.csv': ({ view, trials }, whatIf) => ({
    type: 'text/csv; charset=utf-8',
    text: renderTrialsCsv(trials, new Ranker(view.dashboard).createCriteria(whatIf)),
  }),
  'dashboard.html': ({ view, packed, annotations }, _, assets) => ({
    type: 'text/html; charset=utf-8',
    text: renderStandalonePage(assets, {
      experiment: view.dashboard,
      trials: packed,
      annotations,
    }),
  }),
  'report.html': async ({ view, trials }, whatIf) => {
    const { dashboard } = view
    const ranker = new Ranker(dashboard)
    const blocks = await renderReport(
      {
        ...ranker.createCriteria(whatIf),
        name: dashboard.name,
        trials,
        recommendation: ranker.recommend(trials, whatIf),
        specification: dashboard.specification,
        environment: [
          `experiment ${dashboard.id}, started ${dashboard.createdAt}; prices: ${whatIf.prices.name} (${whatIf.prices.currency})`,
        ],
      },
      renderSvg,
    )
    return { type: 'text/html; charset=utf-8', text: toHtml(`tune: ${dashboard.name}`, blocks) }
  },
}

/**
 * Deployment spec of the recommendation under a question.
 * @throws UserError and SpecError
 */
export async function renderSpecText(
  { view, trials }: Current,
  whatIf: WhatIf,
  targetName: string,
): Promise<string> {
  const target = specTargets.find((name) => name === targetName)
  if (!target)
    throw new UserError(`no spec target is called "${targetName}": ${specTargets.join(', ')}`)
  const recommendation = new Ranker(view.dashboard).recommend(trials, whatIf)
  const { best } = recommendation
  if (!best)
    throw new UserError(`${conclusions[recommendation.conclusion]}: there is nothing to deploy`)
  const { headroom } = view.experiment
  const { objective, slo } = whatIf
  const experiment = {
    ...view.experiment,
    slo,
    objective,
    headroom: getDemand(objective)?.headroom ?? headroom,
  }
  const { stages } = experiment
  if (stages !== undefined) {
    const { pricePerHour } = new Ranker(view.dashboard).createCriteria(whatIf)
    const input = { experiment, stages, recommendation, candidate: best, trials, pricePerHour }
    return (await renderStageSpecs(target, input)).text
  }
  const { implies: server } = await loadTarget(target)
  const files = await renderSpec(
    target,
    applyOwnPod(experiment, resolveServing(experiment, recommendation, best, trials, { server })),
  )
  return files
    .map((file) => (files.length > 1 ? `# file: ${file.name}\n${file.text}` : file.text))
    .join('\n')
}
