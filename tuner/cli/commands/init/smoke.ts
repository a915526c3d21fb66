/**
 * Runs one short trial of a new experiment: whether the server starts, answers and can be measured.
 */

import type { LoadPoint } from '../../../../profiler/model/load-point.ts'
import { sloText } from '../../../../profiler/model/slo.ts'
import { significant } from '../../../../reports/format.ts'
import { getSteadyNowMs } from '../../../../trials/clock.ts'
import type { MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { createMemoryStore } from '../../../../trials/store/index.ts'
import { assemble } from '../../../backends/assemble.ts'
import type { Experiment } from '../../../config/types.ts'
import { exitCodes } from '../../../exit-codes.ts'
import { runTrial } from '../../../loop/trial-runner.ts'
import { formatDuration } from '../../render/columns.ts'
import { formatStep } from '../../render/trial-line.ts'

/** Maximum load time of the smoke test. */
const maxLoadSeconds = 20
const timeIsUp = new Error('the time of the smoke test is over')

/** Prints the result and returns the exit code. Stores nothing. */
export async function runSmokeTest(
  experiment: Experiment,
  machine: MachineFacts,
  signal: AbortSignal,
): Promise<number> {
  const { slo, load, budget } = experiment
  const parts = await assemble(experiment, 'init', createMemoryStore(), machine)
  let readySeconds = 0
  let point: LoadPoint | undefined
  const enough = new AbortController()
  let timer: NodeJS.Timeout | undefined
  try {
    const configuration = parts.defaultConfiguration ?? {}
    const label = parts.label(configuration)
    process.stderr.write(`Running one trial as a check${label ? `: ${label}` : ''}\n`)
    const trial = await runTrial(
      { launcher: parts.backend.launcher, measure: parts.backend.measure },
      { kind: 'trial' },
      { number: 1, configuration, why: 'init', attempt: 1 },
      {
        now: getSteadyNowMs,
        onReady: ({ seconds }) => {
          readySeconds = seconds
          timer = setTimeout(() => enough.abort(timeIsUp), maxLoadSeconds * 1000)
        },
        onStep: (step, phase) => {
          point = step
          process.stderr.write(`  ${formatStep(step, slo, phase)}\n`)
        },
      },
      AbortSignal.any([signal, enough.signal]),
    ).catch((error: unknown) => {
      if (signal.aborted || error !== timeIsUp) throw error
      return undefined
    })
    if (trial === undefined) {
      process.stdout.write(
        `It works: it answers under load${point ? ` (${formatStep(point, slo, 'search').trim()})` : ''}. Measuring its capacity takes longer than ${maxLoadSeconds} s on this machine.\n`,
      )
      return exitCodes.ok
    }
    if (trial.state !== 'complete') {
      process.stdout.write(
        `It does not work yet: ${trial.state === 'failed' ? trial.error : trial.detail}\n`,
      )
      return exitCodes.failure
    }
    const { capacityRps, detail, outcome } = trial.measurement
    const all =
      (budget.maxTrials * trial.seconds) / experiment.parallel +
      (experiment.confirm ? load.confirmSeconds + readySeconds : 0)
    const result =
      capacityRps > 0
        ? `${significant(capacityRps)} requests per second at ${sloText(slo)}`
        : outcome === 'slo-unattainable'
          ? `these values do not meet ${sloText(slo)}: ${detail}`
          : `it answers, but its capacity is not known yet: ${detail ?? outcome}`
    process.stdout.write(`It works: ${result} (a check of ${formatDuration(trial.seconds)}).\n`)
    if (experiment.predictor.kind !== 'url')
      process.stdout.write(
        `A run of at most ${budget.maxTrials} such trials and a confirmation takes up to ${formatDuration(all)}.\n`,
      )
    return exitCodes.ok
  } finally {
    clearTimeout(timer)
    await parts.backend.close()
  }
}
