/**
 * The result files of a run: recommendation.json, trials.csv and, if a configuration meets the SLO,
 * deployment.yaml.
 */
import { join, relative } from 'node:path'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { createRecommendationJson } from '../../reports/report/recommendation-json.ts'
import { renderTrialsCsv } from '../../reports/report/trials-csv.ts'
import { writeAtomically } from '../../reports/report/write-atomically.ts'
import { renderSpec } from '../../reports/specs/index.ts'
import type { Serving } from '../../reports/specs/serving.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import type { Pricing } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import { makeFolder } from '../../trials/private-files.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import { createRankingCriteria } from '../problem/problem.ts'
import { applyOwnPod } from './own-pod.ts'
import { resolveServing } from './serving.ts'
import { renderStageSpecs } from './stage-servings.ts'

interface Results {
  readonly outDir: string
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
  readonly experiment: Experiment
  readonly pricePerHour: Pricing<Configuration>
  readonly label: (configuration: Configuration) => string
}

/** Resolves the configured folder, or one below the working directory. */
export const resolveResultsFolder = (
  { outDir }: Pick<Experiment, 'outDir'>,
  experimentId: string,
): string => outDir ?? join(process.cwd(), 'tune-results', experimentId)

/** Files that are always written. */
export const resultNames = ['recommendation.json', 'trials.csv'] as const

/** Written if a configuration meets the SLO. */
export const specName = 'deployment.yaml'

/**
 * Writes the result files, each atomically.
 * @returns their paths, relative if below the working directory
 */
export async function writeResults({
  outDir,
  recommendation,
  trials,
  experiment,
  pricePerHour,
  label,
}: Results): Promise<string[]> {
  makeFolder(outDir)
  const always: Record<(typeof resultNames)[number], string> = {
    'recommendation.json': createRecommendationJson(recommendation),
    'trials.csv': renderTrialsCsv(
      trials,
      createRankingCriteria(experiment, { pricePerHour, label }),
    ),
  }
  const texts: Record<string, string> = { ...always }
  const { best } = recommendation
  const { stages } = experiment
  if (best !== undefined && stages === undefined) {
    const serving = resolveServing(experiment, recommendation, best, trials)
    Object.assign(texts, await renderDeployment(applyOwnPod(experiment, serving)))
  } else if (best !== undefined && stages !== undefined) {
    const { name, text } = await renderStageSpecs(
      'kubernetes',
      { experiment, stages, recommendation, candidate: best, trials, pricePerHour },
      { autoscaler: 'none' },
    )
    texts[name] = text
  }
  const paths: string[] = []
  for (const [name, text] of Object.entries(texts)) {
    const path = join(outDir, name)
    await writeAtomically(path, text)
    const relativePath = relative(process.cwd(), path)
    paths.push(relativePath.startsWith('..') ? path : relativePath)
  }
  return paths
}

/** Specs of the recommended configuration; for unsupported pools, a file with the reason. */
async function renderDeployment(serving: Serving): Promise<Record<string, string>> {
  try {
    const files = await renderSpec('kubernetes', serving, { autoscaler: 'none' })
    return Object.fromEntries(files.map(({ name, text }) => [name, text]))
  } catch (error) {
    if (!(error instanceof SpecError) || serving.resources.pools === undefined) throw error
    return { [specName]: `# NOT WRITTEN: ${error.message}; ${error.hint}\n` }
  }
}
