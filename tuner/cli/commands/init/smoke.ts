/** Runs one short trial of a new experiment: the server must start, respond and be measurable. */

import type { LoadPoint } from '../../../../profiler/model/load-point.ts'
import { sloText } from '../../../../profiler/model/slo.ts'
import { significant } from '../../../../reports/format.ts'
import { getSteadyNowMs } from '../../../../trials/clock.ts'
import type { MachineFacts } from '../../../../trials/machine/machine-facts.ts'
import { createMemoryStore } from '../../../../trials/store/index.ts'
import type { Experiment } from '../../../config/types.ts'
import { exitCodes } from '../../../exit-codes.ts'
import { runTrial } from '../../../loop/trial-runner.ts'
import { assemble } from '../../../run/assemble.ts'
import { formatDuration } from '../../render/columns.ts'
import { formatStep } from '../../render/trial-line.ts'

/** Maximum load time of the smoke test. */
const maxLoadSeconds = 20
const loadTimeoutError = new Error('the time of the smoke test is over')

/** Prints the result and returns the exit code. Stores nothing. */
export async function runSmokeTest(
  experiment: Experiment,
  machine: MachineFacts,
  signal: AbortSignal,
): Promise<number> {
  const { slo, load, budget } = experiment
  const assembly = await assemble(experiment, 'init', createMemoryStore(), machine)
  let readySeconds = 0
  let lastPoint: LoadPoint | undefined
  const loadTimeout = new AbortController()
  let timer: NodeJS.Timeout | undefined
  try {
    const configuration = assembly.defaultConfiguration ?? {}
    const label = assembly.label(configuration)
    process.stderr.write(`Running one trial as a check${label ? `: ${label}` : ''}\n`)
    const trial = await runTrial(
      { launcher: assembly.backend.launcher, measure: assembly.backend.measure },
      { kind: 'trial' },
      { number: 1, configuration, why: 'init', attempt: 1 },
      {
        now: getSteadyNowMs,
        onReady: ({ seconds }) => {
          readySeconds = seconds
          timer = setTimeout(() => loadTimeout.abort(loadTimeoutError), maxLoadSeconds * 1000)
        },
        onStep: (step, phase) => {
          lastPoint = step
          process.stderr.write(`  ${formatStep(step, slo, phase)}\n`)
        },
      },
      AbortSignal.any([signal, loadTimeout.signal]),
    ).catch((error: unknown) => {
      if (signal.aborted || error !== loadTimeoutError) throw error
      return undefined
    })
    if (trial === undefined) {
      process.stdout.write(
        `The server responds under load${lastPoint ? ` (${formatStep(lastPoint, slo, 'search').trim()})` : ''}. Measuring its capacity takes longer than ${maxLoadSeconds} s on this machine.\n`,
      )
      return exitCodes.ok
    }
    if (trial.state !== 'complete') {
      process.stdout.write(
        `The trial failed: ${trial.state === 'failed' ? trial.error : trial.detail}\n`,
      )
      return exitCodes.failure
    }
    const { capacityRps, detail, outcome } = trial.measurement
    // All trials, some of them in parallel, and the confirmation.
    const estimatedRunSeconds =
      (budget.maxTrials * trial.seconds) / experiment.parallel +
      (experiment.confirm ? load.confirmSeconds + readySeconds : 0)
    const result =
      capacityRps > 0
        ? `The server responds under load: ${significant(capacityRps)} requests per second at ${sloText(slo)}`
        : outcome === 'slo-unattainable'
          ? `The server responds, but this configuration violates ${sloText(slo)}: ${detail}`
          : `The server responds, but its capacity could not be measured: ${detail ?? outcome}`
    process.stdout.write(`${result} (a check of ${formatDuration(trial.seconds)}).\n`)
    if (experiment.predictor.kind !== 'url')
      process.stdout.write(
        `A full run, with up to ${budget.maxTrials} trials and a confirmation, takes up to ${formatDuration(estimatedRunSeconds)}.\n`,
      )
    return exitCodes.ok
  } finally {
    clearTimeout(timer)
    await assembly.backend.close()
  }
}
