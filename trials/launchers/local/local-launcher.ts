/**
 * Launches predictors as processes of this machine. The steps of a launch, in the order of the code:
 *
 * 1. Choose the template of the variant, and read the resources that the configuration needs.
 * 2. Take cores and GPUs, waiting while other trials hold them (`holdings.ts`).
 * 3. Run the template's `prepare` step, or reuse what it made before (`prepare-step.ts`).
 * 4. Start the processes (`start-process.ts`): open the log, reserve a port, fill the command and
 *    write its files, create the control group, note the predictor for sweeps, start its group.
 * 5. Wait for the first answer, or find out why there is none (`wait-until-serving.ts`). Where
 *    another server has the port, steps 4 and 5 are repeated with another port.
 * 6. Sample the usage, watch for the end of the processes, and return the predictor.
 *
 * Every step adds what undoes it to a `Cleanup`, which runs newest first when a step throws and when
 * the predictor is stopped. What a killed tuner leaves is ended by its warden (`warden.ts`), by the
 * next sweep (`leftovers.ts`), or by `tune clean` (`abandoned.ts`, `left-groups.ts`).
 */
import { dirname, join, resolve } from 'node:path'
import type { Configuration } from '../../../search/types.ts'
import { type Resources, readResources } from '../../resources.ts'
import { LaunchError, type Launcher, type Predictor } from '../../types.ts'
import { Cleanup } from '../cleanup.ts'
import { metricsProbe } from '../device-probe.ts'
import { describeExit } from '../diagnosis.ts'
import { describeCause, PortTakenError, portHint } from '../failure.ts'
import { fillPrepare } from '../fill.ts'
import { withVariant } from '../variants.ts'
import { affinityOf, moveTo } from './affinity.ts'
import { heldProbe, raplProbe } from './device-probes.ts'
import { engineProbe, findMeteredEngine } from './engine-probe.ts'
import { createHoldings } from './holdings.ts'
import {
  createTrialControlGroup,
  defaultGraceMs,
  gpuUseOf,
  inheritedEnvironment,
  type Launch,
  type LocalLauncherOptions,
  makeTrialFolder,
  ownerVariables,
  resourceValues,
} from './launch.ts'
import { sweepLeftovers } from './leftovers.ts'
import { type Prepared, prepare } from './prepare-step.ts'
import { type StartedProcess, startProcess } from './start-process.ts'
import { sampleUsage } from './usage.ts'
import { type Serving, waitUntilServing } from './wait-until-serving.ts'

export const createLocalLauncher = (given: LocalLauncherOptions): Launcher => {
  const holdings = createHoldings(given.machine, given.ownGpus)
  const runDirectory = resolve(given.runDirectory)
  const runningDirectory = given.runningDirectory ?? join(dirname(runDirectory), 'running')
  return {
    name: 'local',
    launch: async (asGiven, trialNumber, signal, onWaiting) => {
      const { template, configuration } = withVariant(given.template, asGiven)
      const options = { ...given, template, runDirectory }
      checkPlatform(options)
      const read = (one: Configuration) => readResources(one, options.defaults, options.ownGpus)
      const take = (needed: Resources, until: AbortSignal) =>
        holdings.take(needed, gpuUseOf(options, needed), until)

      const cleanup = new Cleanup()
      try {
        const resources = read(configuration)
        let holding = await take(resources, signal)
        const release = () => holding.release()
        cleanup.add(release)
        const launch: Launch = {
          options,
          runningDirectory,
          configuration,
          resources,
          holding,
          changeHolding: async (other, until) => {
            holding.release()
            holding = await take(read(other), until)
            return holding
          },
          release,
          trialNumber,
          signal,
          onWaiting,
        }
        const prepared = await runPrepareStep(launch)
        return await serveOnFreePort({ ...launch, prepared }, cleanup)
      } catch (error) {
        await cleanup.run()
        signal.throwIfAborted()
        throw error
      }
    },
    sweep: (_signal, onLeft) =>
      sweepLeftovers(runningDirectory, given.graceMs ?? defaultGraceMs, onLeft),
  }
}

function checkPlatform({ machine: { platform } }: LocalLauncherOptions): void {
  if (platform !== 'linux')
    throw new LaunchError(
      `local trials need Linux, whose /proc identifies the processes of a predictor; this machine runs ${platform}`,
      'run tune in a Linux container or virtual machine, or use --backend simulated or kubernetes',
    )
}

/** What the template's `prepare` step made, on the trial's own cores and GPU. */
async function runPrepareStep(launch: Launch): Promise<Prepared | undefined> {
  const { options, configuration, resources, holding } = launch
  const { template, machine } = options
  if (template.kind !== 'command' || template.prepare === undefined) return undefined
  const step = fillPrepare(
    template.prepare,
    { ...options.defaults, ...configuration },
    resourceValues(launch, template.model),
  )
  return prepare(
    step,
    {
      preparedDirectory: join(dirname(options.runDirectory), 'prepared'),
      runningDirectory: launch.runningDirectory,
      folder: makeTrialFolder(launch),
      env: { ...inheritedEnvironment(holding), ...ownerVariables(launch) },
      cwd: template.cwd ?? process.cwd(),
      prefix: affinityOf(machine, holding).prefix,
      controlGroup: () => createTrialControlGroup(launch),
      device: resources.gpu && `${resources.gpu} ${resources.migProfile ?? ''}`,
      graceMs: options.graceMs ?? defaultGraceMs,
      logLimitBytes: options.logLimitBytes,
    },
    launch.signal,
  )
}

const maxPortTries = 3

async function serveOnFreePort(launch: Launch, cleanup: Cleanup): Promise<Predictor> {
  for (let attempt = 1; ; attempt++) {
    const trial = new Cleanup()
    cleanup.add(() => trial.run())
    try {
      const started = await launchProcess(launch, trial)
      return createPredictor(launch, started, trial, () => cleanup.run())
    } catch (error) {
      if (!(error instanceof PortTakenError)) throw error
      if (attempt === maxPortTries)
        throw new LaunchError(
          `all ${maxPortTries} ports tried are in use: ${error.message}`,
          portHint,
        )
      await trial.run()
    }
  }
}

/** A predictor that serves. */
interface LaunchedProcess extends StartedProcess, Serving {
  readonly launchSeconds: number
}

async function launchProcess(launch: Launch, cleanup: Cleanup): Promise<LaunchedProcess> {
  const startedMs = performance.now()
  const started = await startProcess(launch, cleanup)
  const serving = await waitUntilServing(launch, started)
  return { ...started, ...serving, launchSeconds: (performance.now() - startedMs) / 1000 }
}

function createPredictor(
  launch: Launch,
  launched: LaunchedProcess,
  cleanup: Cleanup,
  stopAll: () => Promise<void>,
): Predictor {
  const { options, holding, prepared } = launch
  const { group, log, target, provenance, launchSeconds } = launched
  const pids = () => group.members().map(({ pid }) => pid)
  const startSampler = () =>
    sampleUsage(group.members, createProbes(launch, launched, pids), launchSeconds)
  let sampler = startSampler()
  cleanup.add(() => sampler.stop())
  let stopped = false
  return {
    target: { ...target, serverPids: pids },
    protocol: options.protocol.name,
    provenance,
    isolation: launched.describeIsolation(holding),
    ...(provenance === 'emulated' && {
      move: async (other, until) => {
        const taken = await launch.changeHolding(other, until)
        await moveTo(options.machine, taken, pids())
        return launched.describeIsolation(taken)
      },
      rest: launch.release,
    }),
    ...(prepared && { prepared: { seconds: prepared.seconds, reused: prepared.kept } }),
    logPath: log.path,
    logTail: () => log.tail(),
    usage: async () => ({
      ...(await sampler.read()),
      ...(prepared && !prepared.kept && { prepareSeconds: prepared.seconds }),
    }),
    restartUsage: () => {
      sampler.stop()
      sampler = startSampler()
    },
    died: new Promise((report) => {
      group.exited.then((exit) => {
        if (stopped) return
        const cause = launched.diagnose(exit)
        report({
          what: describeCause(cause, describeExit(exit)),
          outOfMemory: cause.kind === 'out-of-memory',
        })
      })
    }),
    stop: () => {
      stopped = true
      return stopAll()
    },
  }
}

/** New probes each time: they report what happened since their own first reading. */
function createProbes(
  { options, resources, holding }: Launch,
  { httpUrl, provenance }: LaunchedProcess,
  pids: () => readonly number[],
) {
  const { template } = options
  const engine = template.kind === 'command' ? findMeteredEngine(template) : undefined
  return [
    ...(template.kind === 'builtin' ? [metricsProbe(httpUrl, resources.gpu !== undefined)] : []),
    ...(engine === undefined ? [] : [engineProbe(httpUrl, engine)]),
    ...(holding.devices.length > 0 ? [heldProbe(holding.devices, pids)] : []),
    // With an emulated GPU the energy of the processors would pass for that of the whole server.
    ...(provenance === 'emulated' ? [] : [raplProbe()]),
  ]
}
