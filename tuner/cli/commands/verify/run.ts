/** `tune verify`: measures a recommended configuration or a running service again. */
import { resolve } from 'node:path'
import { detectProtocol } from '../../../../profiler/protocols/index.ts'
import { chooseConfirmationRate } from '../../../../reports/recommendation/confirmation-round.ts'
import { isConfirmed } from '../../../../reports/recommendation/status.ts'
import type { Candidate } from '../../../../reports/recommendation/types.ts'
import { getSteadyNowMs } from '../../../../trials/clock.ts'
import { inspectMachine } from '../../../../trials/machine/machine-facts.ts'
import type { ExperimentRecord, FinishedTrial, TrialStore } from '../../../../trials/types.ts'
import type { FlagValues } from '../../../config/flags/flags.ts'
import { createHostContext } from '../../../config/host-context.ts'
import { loadExperiment, loadExperimentDocument } from '../../../config/load-experiment.ts'
import type { Experiment, ExperimentDocument } from '../../../config/types.ts'
import { parseRateRps } from '../../../config/values/units.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { measureAtRate } from '../../../loop/confirmation.ts'
import type { EventBody } from '../../../loop/events.ts'
import { Ledger } from '../../../loop/ledger.ts'
import type { LoopParts } from '../../../loop/parts.ts'
import { readStopPosterior } from '../../../loop/reevaluation.ts'
import { runTrial } from '../../../loop/trial-runner.ts'
import { assemble, openBackend } from '../../../run/assemble.ts'
import { formatDuration } from '../../render/columns.ts'
import { formatStep } from '../../render/trial-line.ts'
import { listenForInterrupts } from '../../signals.ts'
import { findExperiment, openWritableStore, requireStore } from '../open-existing.ts'
import { chooseCandidate } from '../reopen-experiment.ts'
import { judgeVerification, type Verification } from './verification.ts'

export interface VerifyFlags extends FlagValues {
  readonly db: string
  readonly trial?: string
  readonly rate?: string
  readonly confirmTime?: string
  readonly json?: boolean
  readonly file?: string
  readonly url?: string
  readonly model?: string
  readonly protocol?: string
}

/** Verifies a configuration or a running service, and prints the verdict. Returns the exit code. */
export async function verify(id: string | undefined, flags: VerifyFlags): Promise<number> {
  const { signal, dispose } = listenForInterrupts(() => process.stderr.write('stopping\n'))
  try {
    const isService = flags.url !== undefined || flags.file !== undefined
    if (isService && (id ?? flags.trial) !== undefined)
      throw new UserError(
        'tune verify: an experiment and a service exclude each other',
        'use only one of them',
        exitCodes.usage,
      )
    const verified = isService
      ? await verifyService(flags, signal)
      : await verifyExperiment(id, flags, signal)
    process.stdout.write(
      flags.json
        ? `${JSON.stringify(verified, replaceInfinity, 2)}\n`
        : `${formatVerification(verified).join('\n')}\n`,
    )
    return exitCodeByFinding[verified.finding]
  } catch (error) {
    if (signal.aborted) return exitCodes.interrupted
    throw error
  } finally {
    dispose()
  }
}

const exitCodeByFinding: Readonly<Record<Verification['finding'], number>> = {
  holds: exitCodes.ok,
  'does not hold': exitCodes.unconfirmed,
  unknown: exitCodes.failure,
}

/** JSON has no Infinity: it becomes the string "Infinity", as in the store. */
const replaceInfinity = (_key: string, value: unknown) =>
  typeof value === 'number' && !Number.isFinite(value) ? String(value) : value

const formatVerification = ({
  verdict,
  caveats,
  experimentId,
  verification,
}: Verification): string[] => [
  verdict,
  ...caveats.map((caveat) => `Note: ${caveat}`),
  ...(experimentId === undefined
    ? []
    : [`Saved as trial ${verification} of experiment ${experimentId}: tune show ${experimentId}`]),
]

/** Verifies a running service at a rate. */
async function verifyService(flags: VerifyFlags, signal: AbortSignal): Promise<Verification> {
  const { rate } = flags
  if (rate === undefined)
    throw new UserError('tune verify needs a rate', 'add --rate 800rps', exitCodes.usage)
  const askedRps = parseRateRps(rate)
  const machine = await inspectMachine()
  const completeFlags = { ...flags, ...(await detectMissingProtocol(flags, signal)) }
  const experiment = loadExperiment({
    file: flags.file,
    flags: completeFlags,
    environment: process.env,
    ...createHostContext(machine),
  })
  const { predictor, slo } = experiment
  if (predictor.kind !== 'url')
    throw new UserError(
      `${flags.file} has no address of a running service`,
      'add its address: --url http://HOST:PORT',
      exitCodes.usage,
    )
  const backend = await openBackend(experiment, 'verify', machine)
  try {
    const request = { number: 1, configuration: {}, why: 'verification', attempt: 1 }
    const printProgress = createProgressPrinter(experiment)
    const trial = await runTrial(
      backend,
      { kind: 'verification', rateRps: askedRps },
      request,
      {
        now: getSteadyNowMs,
        onReady: ({ seconds }) =>
          printProgress({ type: 'predictor-ready', number: 1, isolation: predictor.url, seconds }),
        onStep: (point, phase) =>
          printProgress({ type: 'load-step', number: 1, point, sloMs: slo.limitMs, phase }),
      },
      signal,
    )
    return judgeVerification({ label: predictor.url, slo, askedRps }, trial)
  } finally {
    await backend.close()
  }
}

/**
 * Detects the protocol if no flag or file sets it.
 * @throws ProtocolError
 */
async function detectMissingProtocol(
  { url, file, model, protocol }: VerifyFlags,
  signal: AbortSignal,
): Promise<Pick<VerifyFlags, 'protocol'>> {
  if (url === undefined || file !== undefined || protocol !== undefined) return {}
  return { protocol: await detectProtocol(url, model ?? 'model', {}, signal) }
}

/** Verifies a configuration of a stored experiment, and appends the measurement to it. */
async function verifyExperiment(
  id: string | undefined,
  flags: VerifyFlags,
  signal: AbortSignal,
): Promise<Verification> {
  requireStore(flags.db)
  const store = await openWritableStore(flags.db)
  try {
    const { experiment: record, trials } = await findExperiment(store, id)
    const machine = await inspectMachine()
    const { confirmTime } = flags
    const experiment = {
      ...loadExperimentDocument(
        record.spec as ExperimentDocument,
        record.id,
        createHostContext(machine),
        confirmTime ? { confirmTime } : {},
      ),
      dbPath: resolve(flags.db),
    }
    const parts = await assemble(experiment, record.id, store, machine)
    try {
      const candidate = chooseCandidate(parts.recommend(trials, undefined), flags.trial)
      return await runClaimed(store, record, parts, trials, (ledger) =>
        verifyCandidate(experiment, parts, ledger, candidate, flags.rate, signal),
      )
    } finally {
      await parts.backend.close()
    }
  } finally {
    await store.close()
  }
}

/**
 * Claims the experiment during the work. Afterwards its state is as before, with the new trials.
 */
async function runClaimed<T>(
  store: TrialStore,
  record: ExperimentRecord,
  parts: LoopParts,
  earlier: readonly FinishedTrial[],
  work: (ledger: Ledger) => Promise<T>,
): Promise<T> {
  const { recommend, experimentId, backend } = parts
  await store.claim(experimentId)
  const ledger = new Ledger({ ...parts, earlier, progress: await store.progress(experimentId) })
  try {
    await backend.launcher.sweep(undefined, (left) => process.stderr.write(`${left}\n`))
    return await work(ledger)
  } finally {
    const state = record.state === 'running' ? 'interrupted' : record.state
    const result: unknown =
      ledger.trialsOfProcess.length > 0
        ? recommend(ledger.trials, readStopPosterior(record))
        : record.result
    await store.finish(experimentId, state, result)
  }
}

async function verifyCandidate(
  experiment: Experiment,
  parts: LoopParts,
  ledger: Ledger,
  candidate: Candidate,
  rate: string | undefined,
  signal: AbortSignal,
): Promise<Verification> {
  const askedRps = rate === undefined ? chooseRate(candidate, experiment) : parseRateRps(rate)
  const task = { kind: 'verification', rateRps: askedRps } as const
  const trial = await measureAtRate(
    experiment,
    parts,
    ledger,
    createProgressPrinter(experiment),
    task,
    candidate,
    signal,
  )
  const { experimentId } = parts
  return judgeVerification(
    { experimentId, trial: candidate.trial, label: candidate.label, slo: experiment.slo, askedRps },
    trial,
  )
}

/** Chooses the confirmed rate, or a rate slightly below an estimate. */
const chooseRate = (candidate: Candidate, { objective }: Experiment): number =>
  isConfirmed(candidate.status)
    ? candidate.capacityRps
    : chooseConfirmationRate(candidate, objective)

/** Creates a function that prints progress to stderr, a line for each event. */
const createProgressPrinter =
  ({ slo }: Experiment) =>
  (event: EventBody): void => {
    const line = formatEvent(event, slo)
    if (line !== undefined) process.stderr.write(`${line}\n`)
  }

function formatEvent(event: EventBody, slo: Experiment['slo']): string | undefined {
  switch (event.type) {
    case 'confirming':
      return `verifying ${event.label}`
    case 'predictor-ready':
      return `  ready after ${formatDuration(event.seconds)}: ${event.isolation}`
    case 'load-step':
      return `  ${formatStep(event.point, slo, event.phase)}`
    default:
      return undefined
  }
}
