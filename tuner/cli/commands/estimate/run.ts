/** `tune estimate`: prints the predictions of the device model. Starts and measures nothing. */
import {
  latency,
  percent,
  rate,
  significant,
  sloText,
  sloValue,
  writing,
} from '../../../../reports/format.ts'
import {
  formatCost,
  getObjectiveUnit,
  modelsCapacityOrLatency,
} from '../../../../search/objective.ts'
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import type { FlagValues } from '../../../config/flags/flags.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperiment } from '../../../config/load-experiment.ts'
import type { Experiment } from '../../../config/types.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { applyCalibration } from '../../../problem/calibration.ts'
import { type EstimateTable, estimateAll } from '../../../problem/estimate-table.ts'
import { createProblem, loadPriceBook } from '../../../problem/problem.ts'
import { formatTable } from '../../render/columns.ts'

/**
 * The command.
 * @returns the exit code
 */
export async function estimate(flags: FlagValues & { json?: boolean }): Promise<number> {
  const host = createHostContext(await inspectMachine())
  const experiment = await applyCalibration(
    loadExperiment({
      file: flags.file as string | undefined,
      flags,
      environment: process.env,
      ...host,
    }),
  )
  if (!modelsCapacityOrLatency(experiment.objective))
    throw new UserError(
      `the device model predicts rates and latencies, but not ${getObjectiveUnit(experiment.objective)}`,
      'use another objective: --objective price-per-request',
      exitCodes.usage,
    )
  const problem = createProblem(
    experiment,
    await loadPriceBook(experiment.pricesPath, experiment.own.gpus),
  )
  const estimates = estimateAll(experiment, problem)
  for (const notice of experiment.notices) process.stderr.write(`${notice}\n`)
  process.stdout.write(
    flags.json
      ? `${JSON.stringify(estimates, null, 2)}\n`
      : `${formatEstimates(estimates, experiment).join('\n')}\n`,
  )
  return estimates.rows.length > 0 ? exitCodes.ok : exitCodes.sloUnmet
}

/** Rows of the table; --json prints every configuration. */
const maxRows = 10

function formatEstimates(estimates: EstimateTable, { objective, slo }: Experiment): string[] {
  const { rows, excluded, reasons, complete, caveat } = estimates
  const exclusions = [
    excluded.sloUnattainable > 0
      ? `${excluded.sloUnattainable} exceed ${slo.limits ? 'the SLO' : latency(slo.limitMs)} even unloaded`
      : '',
    excluded.cannotServe > 0 ? `${excluded.cannotServe} cannot serve` : '',
  ].filter(Boolean)
  const tail = [
    ...(exclusions.length > 0 ? [`Left out: ${exclusions.join(', ')}.`] : []),
    ...(rows.length === 0 ? reasons : []),
    ...(complete ? [] : ['The search space is too large to list: this is the best of a sample.']),
    `${caveat}. Errors are typical errors (1σ).`,
  ]
  const best = rows[0]
  if (!best) return [`No configuration is expected to meet ${sloText(slo)}.`, ...tail]
  const rivals =
    rows.filter((r) => r.logCost - best.logCost <= Math.hypot(r.relativeError, best.relativeError))
      .length - 1
  return [
    `Expected best: ${best.label}: ${rate(best.capacityRps)} ± ${percent(best.relativeError)}, ${formatCost(objective, best, writing)}`,
    rivals > 0
      ? `${significant(rivals)} other configurations may be as good within the errors: run trials to decide.`
      : 'No other configuration comes close within the errors.',
    '',
    ...formatTable([
      ['', 'configuration', 'capacity', 'idle', 'limited by', 'cost', 'P(out of memory)'],
      ...rows
        .slice(0, maxRows)
        .map((row, i) => [
          `${i + 1}`,
          row.label,
          `${rate(row.capacityRps)} ± ${percent(row.relativeError)}`,
          sloValue(slo, row.unloadedMs),
          row.binding,
          formatCost(objective, row, writing),
          row.outOfMemory < 0.001 ? '-' : percent(row.outOfMemory),
        ]),
    ]),
    ...(rows.length > maxRows ? [`... ${rows.length - maxRows} more (--json prints all)`] : []),
    '',
    ...tail,
  ]
}
