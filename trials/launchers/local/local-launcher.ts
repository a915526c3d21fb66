/**
 * Launches predictors as processes of this machine. The steps of a launch, in the order of the code:
 *
 * 1. Choose the template of the variant, and read the resources that the configuration needs.
 * 2. Reserve cores and GPUs; wait while other trials use them (`resource-pool.ts`).
 * 3. Run the template's `prepare` step, or reuse its saved result (`prepare-step.ts`).
 * 4. Start the processes (`start-process.ts`): open the log, reserve a port, fill the command and
 *    write its files, create the control group, note the predictor for sweeps, start its group.
 * 5. Wait for the first answer, or find out why there is none (`wait-until-serving.ts`). Where
 *    another server has the port, steps 4 and 5 are repeated with another port.
 * 6. Sample the usage, watch for the end of the processes, and return the predictor.
 *
 * Every step registers its undo action with a `Cleanup`, which runs newest first when a step throws and
 * when the predictor is stopped. After a kill of the tuner, its predictors are ended by its warden
 * (`warden.ts`), by the next sweep (`leftovers.ts`), or by `tune clean` (`abandoned.ts`,
 * `left-groups.ts`).
 */
import { dirname, join, resolve } from 'node:path'
import type { Configuration } from '../../../search/types.ts'
import { type Resources, readResources } from '../../resources.ts'
import { LaunchError, type Launcher, type Predictor } from '../../types.ts'
import { Cleanup } from '../cleanup.ts'
import { createMetricsProbe } from '../device-probe.ts'
import { describeExit } from '../diagnosis.ts'
import { describeCause, PortTakenError, portHint } from '../failure.ts'
import { fillPrepare } from '../fill.ts'
import { applyVariant } from '../variants.ts'
import { createAffinityCommand, pinProcesses } from './affinity.ts'
import { createGpuProbe, createRaplProbe } from './device-probes.ts'
import { createEngineProbe, findMeteredEngine } from './engine-probe.ts'
import {
  classifyGpuUse,
  createInheritedEnvironment,
  createOwnerVariables,
  createTrialControlGroup,
  defaultGraceMs,
  type Launch,
  type LocalLauncherOptions,
  listResourceValues,
  makeTrialFolder,
} from './launch.ts'
import { sweepLeftovers } from './leftovers.ts'
import { type PreparedArtifact, prepare } from './prepare-step.ts'
import { createResourcePool } from './resource-pool.ts'
import { type StartedProcess, startProcess } from './start-process.ts'
import { sampleUsage } from './usage.ts'
import { type ServingPredictor, waitUntilServing } from './wait-until-serving.ts'

export const createLocalLauncher = (launcherOptions: LocalLauncherOptions): Launcher => {
  const { stage } = launcherOptions
  const pool = stage?.pool ?? createResourcePool(launcherOptions.machine, launcherOptions.ownGpus)
  const runDirectory = resolve(launcherOptions.runDirectory)
  const runningDirectory =
    launcherOptions.runningDirectory ?? join(dirname(runDirectory), 'running')
  return {
    name: 'local',
    launch: async (requested, trialNumber, signal, onWaiting) => {
      const { template, configuration } = applyVariant(launcherOptions.template, requested)
      const options = { ...launcherOptions, template, runDirectory }
      checkPlatform(options)
      const readNeeds = (one: Configuration) =>
        readResources(one, options.defaults, options.ownGpus)
      const reserve = (needed: Resources, until: AbortSignal) =>
        pool.reserve(needed, classifyGpuUse(options, needed), until, stage && trialNumber)

      const cleanup = new Cleanup()
      try {
        const resources = readNeeds(configuration)
        let reservation = await reserve(resources, signal)
        const release = () => reservation.release()
        cleanup.add(release)
        const launch: Launch = {
          options,
          runningDirectory,
          configuration,
          resources,
          reservation,
          changeReservation: async (other, until) => {
            reservation.release()
            reservation = await reserve(readNeeds(other), until)
            return reservation
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
      sweepLeftovers(runningDirectory, launcherOptions.graceMs ?? defaultGraceMs, onLeft),
  }
}

function checkPlatform({ machine: { platform } }: LocalLauncherOptions): void {
  if (platform !== 'linux')
    throw new LaunchError(
      `local trials need Linux, whose /proc identifies the processes of a predictor; this machine runs ${platform}`,
      'run tune in a Linux container or virtual machine, or use --backend simulated or kubernetes',
    )
}

/** Runs the template's `prepare` step on the trial's cores and GPU. */
async function runPrepareStep(launch: Launch): Promise<PreparedArtifact | undefined> {
  const { options, configuration, resources, reservation } = launch
  const { template, machine } = options
  if (template.kind !== 'command' || template.prepare === undefined) return undefined
  const step = fillPrepare(
    template.prepare,
    { ...options.defaults, ...configuration },
    listResourceValues(launch, template.model),
  )
  return prepare(
    step,
    {
      preparedDirectory: join(dirname(options.runDirectory), 'prepared'),
      runningDirectory: launch.runningDirectory,
      folder: makeTrialFolder(launch),
      env: { ...createInheritedEnvironment(reservation), ...createOwnerVariables(launch) },
      cwd: template.cwd ?? process.cwd(),
      prefix: createAffinityCommand(machine, reservation).prefix,
      controlGroup: () => createTrialControlGroup(launch),
      device: resources.gpu && `${resources.gpu} ${resources.migProfile ?? ''}`,
      graceMs: options.graceMs ?? defaultGraceMs,
      logLimitBytes: options.logLimitBytes,
    },
    launch.signal,
  )
}

/** Another server may take a free port before the predictor binds it. Assumed. */
const maxPortTries = 3

async function serveOnFreePort(launch: Launch, cleanup: Cleanup): Promise<Predictor> {
  for (let attempt = 1; ; attempt++) {
    const attemptCleanup = new Cleanup()
    cleanup.add(() => attemptCleanup.run())
    try {
      const started = await launchProcess(launch, attemptCleanup)
      return createPredictor(launch, started, attemptCleanup, () => cleanup.run())
    } catch (error) {
      if (!(error instanceof PortTakenError)) throw error
      if (attempt === maxPortTries)
        throw new LaunchError(
          `all ${maxPortTries} ports tried are in use: ${error.message}`,
          portHint,
        )
      await attemptCleanup.run()
    }
  }
}

/** A predictor that serves. */
interface LaunchedProcess extends StartedProcess, ServingPredictor {
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
  const { options, reservation, prepared } = launch
  const { group, log, target, provenance, launchSeconds } = launched
  const listGroupPids = () => group.members().map(({ pid }) => pid)
  const startSampler = () =>
    sampleUsage(group.members, createProbes(launch, launched, listGroupPids), launchSeconds)
  let sampler = startSampler()
  cleanup.add(() => sampler.stop())
  let stopped = false
  return {
    target: { ...target, serverPids: listGroupPids },
    protocol: options.protocol.name,
    provenance,
    isolation: launched.describeIsolation(reservation),
    ...(provenance === 'emulated' && {
      moveToCores: async (other, until) => {
        const newReservation = await launch.changeReservation(other, until)
        await pinProcesses(options.machine, newReservation, listGroupPids())
        return launched.describeIsolation(newReservation)
      },
      releaseCores: launch.release,
    }),
    ...(prepared && { prepared: { seconds: prepared.seconds, reused: prepared.reused } }),
    logPath: log.path,
    logTail: () => log.tail(),
    usage: async () => ({
      ...(await sampler.read()),
      ...(prepared && !prepared.reused && { prepareSeconds: prepared.seconds }),
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

/** New probes for each trial: they count from their first reading. */
function createProbes(
  { options, resources, reservation }: Launch,
  { httpUrl, provenance }: LaunchedProcess,
  listGroupPids: () => readonly number[],
) {
  const { template } = options
  const engine = template.kind === 'command' ? findMeteredEngine(template) : undefined
  return [
    ...(template.kind === 'builtin'
      ? [createMetricsProbe(httpUrl, resources.gpu !== undefined)]
      : []),
    ...(engine === undefined ? [] : [createEngineProbe(httpUrl, engine)]),
    ...(reservation.devices.length > 0 ? [createGpuProbe(reservation.devices, listGroupPids)] : []),
    // With an emulated GPU the energy of the processors would pass for that of the whole server.
    ...(provenance === 'emulated' ? [] : [createRaplProbe()]),
  ]
}
