/**
 * The files a tuning run leaves: recommendation.json, trials.csv and, where something meets the
 * SLO, deployment.yaml.
 */
import { join, relative } from 'node:path'
import type { Recommendation } from '../../reports/recommendation/types.ts'
import { recommendationJson } from '../../reports/report/recommendation-json.ts'
import { trialsCsv } from '../../reports/report/trials-csv.ts'
import { writeAtomically } from '../../reports/report/write-atomically.ts'
import { renderSpec } from '../../reports/specs/index.ts'
import type { Serving } from '../../reports/specs/serving.ts'
import { SpecError } from '../../reports/specs/spec-error.ts'
import type { Pricing } from '../../search/replica-price.ts'
import type { Configuration } from '../../search/types.ts'
import { makeFolder } from '../../trials/private-files.ts'
import type { FinishedTrial } from '../../trials/types.ts'
import type { Experiment } from '../config/types.ts'
import { createView } from '../loop/problem.ts'
import { withOwnPod } from './own-pod.ts'
import { servingFrom } from './serving-from.ts'

interface Results {
  readonly outDir: string
  readonly recommendation: Recommendation
  readonly trials: readonly FinishedTrial[]
  readonly experiment: Experiment
  readonly pricePerHour: Pricing<Configuration>
  readonly label: (configuration: Configuration) => string
}

/** Of an experiment that names no folder: below the working directory. */
export const resultsFolder = (
  { outDir }: Pick<Experiment, 'outDir'>,
  experimentId: string,
): string => outDir ?? join(process.cwd(), 'tune-results', experimentId)

/** What stands in it whatever was found. */
export const resultNames = ['recommendation.json', 'trials.csv'] as const

/** Where something meets the SLO. */
export const specName = 'deployment.yaml'

/**
 * Writes them, each whole or not at all; returns their paths, short where they lie below the
 * working directory.
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
    'recommendation.json': recommendationJson(recommendation),
    'trials.csv': trialsCsv(trials, createView(experiment, { pricePerHour, label })),
  }
  const texts: Record<string, string> = { ...always }
  if (recommendation.best) {
    const serving = withOwnPod(
      experiment,
      servingFrom(experiment, recommendation, recommendation.best, trials),
    )
    Object.assign(texts, await deploymentOf(serving))
  }
  const paths: string[] = []
  for (const [name, text] of Object.entries(texts)) {
    const path = join(outDir, name)
    await writeAtomically(path, text)
    const short = relative(process.cwd(), path)
    paths.push(short.startsWith('..') ? path : short)
  }
  return paths
}

/** What deploys the recommended configuration; of pools that no target writes, why not. */
async function deploymentOf(serving: Serving): Promise<Record<string, string>> {
  try {
    const files = await renderSpec('kubernetes', serving, { autoscaler: 'none' })
    return Object.fromEntries(files.map(({ name, text }) => [name, text]))
  } catch (error) {
    if (!(error instanceof SpecError) || serving.resources.pools === undefined) throw error
    return { [specName]: `# NOT WRITTEN: ${error.message}; ${error.hint}\n` }
  }
}
