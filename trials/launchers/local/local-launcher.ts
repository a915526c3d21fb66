/** Launches predictors as processes of this machine. */
import { basename, dirname, join, resolve } from 'node:path'
import type { PayloadSource } from '../../../profiler/payload-source.ts'
import type { Protocol } from '../../../profiler/protocols/protocol.ts'
import { NeverReadyError, untilServing } from '../../../profiler/protocols/until-serving.ts'
import type { Configuration } from '../../../search/types.ts'
import type { Gpu } from '../../devices/catalogue.ts'
import type { MachineFacts } from '../../machine/machine-facts.ts'
import { makePrivateFolder } from '../../private-files.ts'
import { type Resources, resourcesOf } from '../../resources.ts'
import {
  InfeasibleError,
  LaunchError,
  type Launcher,
  type OnWaiting,
  type Predictor,
} from '../../types.ts'
import {
  type Announcement,
  builtinCommand,
  builtinExitCodes,
  createAnnouncement,
  gpuUseOf,
} from '../builtin.ts'
import { type Cause, describeExit, diagnose, memoryKills, saysPortTaken } from '../diagnosis.ts'
import {
  describeCause,
  launchFailure,
  neverReady,
  noGoodAnswer,
  PortTakenError,
  portHint,
} from '../failure.ts'
import {
  type FilledTemplate,
  fillCommand,
  fillPrepare,
  type LauncherValues,
  type TunedParameter,
} from '../fill.ts'
import { within } from '../readiness.ts'
import { serverInstall } from '../../servers/preset.ts'
import { type BuiltinTemplate, type CommandTemplate, defaultReadyTimeoutS } from '../template.ts'
import { withVariant } from '../variants.ts'
import { experimentVariable, folderVariable } from './abandoned.ts'
import { affinityOf, moveTo } from './affinity.ts'
import { Cleanup } from '../cleanup.ts'
import { type ControlGroup, createControlGroup, groupName } from './control-group.ts'
import { heldProbe, metricsProbe, raplProbe } from './device-probes.ts'
import { engineProbe, tellingEngine } from './engine-probe.ts'
import { onDisk, writeFiles } from './folder-files.ts'
import { createHoldings, type Holding } from './holdings.ts'
import { noteRunning, sweepLeftovers } from './leftovers.ts'
import { openLog, type PredictorLog } from '../predictor-log.ts'
import { checkLeft, reservePort } from './port.ts'
import { type Prepared, prepare } from './prepare-step.ts'
import { type Exit, type ProcessGroup, startGroup } from './process-group.ts'
import { listenersOn, portsOf, strangersOn } from './processes.ts'
import { checkProgram } from './program.ts'
import { sampleUsage } from './usage.ts'
import { watchOver } from './warden.ts'

export interface LocalLauncherOptions {
  readonly template: BuiltinTemplate | CommandTemplate
  /** Category of every tuned parameter. */
  readonly parameters: readonly TunedParameter[]
  /** Values of parameters that no configuration names. */
  readonly defaults?: Configuration
  /** The user's own GPUs, beside the catalogue's. */
  readonly ownGpus?: readonly Gpu[]
  /** What speaks the template's protocol. */
  readonly protocol: Protocol
  readonly payload: PayloadSource
  /** The experiment's folder: logs and files of trial n go to trials/n below it. */
  readonly runDirectory: string
  /**
   * Where running predictors are noted for `sweep`. Default: 'running' beside the experiment's
   * folder, so that any later experiment sweeps.
   */
  readonly runningDirectory?: string
  readonly machine: MachineFacts
  /** From SIGTERM to SIGKILL. Default 5000. */
  readonly graceMs?: number
  /** Size at which a log file starts anew; two are kept. Default 8 MiB. */
  readonly logLimitBytes?: number
}

const host = '127.0.0.1'
const portTries = 3

export const createLocalLauncher = (given: LocalLauncherOptions): Launcher => {
  const holdings = createHoldings(given.machine, given.ownGpus)
  const runningDirectory =
    given.runningDirectory ?? join(dirname(resolve(given.runDirectory)), 'running')
  return {
    name: 'local',
    launch: async (asGiven, trialNumber, signal, onWaiting) => {
      const { template, configuration } = withVariant(given.template, asGiven)
      const options = { ...given, template, runDirectory: resolve(given.runDirectory) }
      if (options.machine.platform !== 'linux') {
        const what = `local trials need Linux, whose /proc identifies the processes of a predictor; this machine runs ${options.machine.platform}`
        throw new LaunchError(
          what,
          'run tune in a Linux container or virtual machine, or use --backend simulated or kubernetes',
        )
      }
      const cleanup = new Cleanup()
      try {
        const take = (asked: Resources, until: AbortSignal) =>
          holdings.take(
            asked,
            gpuUseOf(options.template, options.parameters, asked, options),
            until,
          )
        const asked = resourcesAsked(configuration, options)
        let holding = await take(asked, signal)
        const rest = () => holding.release()
        cleanup.add(rest)
        const hold: Launch['hold'] = async (other, until) => {
          holding.release()
          holding = await take(resourcesAsked(other, options), until)
          return holding
        }
        const launch = {
          options,
          runningDirectory,
          configuration,
          asked,
          holding,
          hold,
          rest,
          trialNumber,
          signal,
          onWaiting,
        }
        const prepared = await preparedFor(launch)
        for (let attempt = 1; ; attempt++) {
          const trial = new Cleanup()
          cleanup.add(() => trial.run())
          try {
            return await launchOnce({ ...launch, prepared }, trial, () => cleanup.run())
          } catch (error) {
            if (!(error instanceof PortTakenError)) throw error
            if (attempt === portTries)
              throw new LaunchError(
                `all ${portTries} ports tried are in use: ${error.message}`,
                portHint,
              )
            await trial.run()
          }
        }
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

const defaultGraceMs = 5_000

interface Launch {
  readonly options: LocalLauncherOptions
  readonly runningDirectory: string
  readonly configuration: Configuration
  readonly asked: Resources
  readonly holding: Holding
  /** Gives that back for what another configuration asks for. */
  readonly hold: (other: Configuration, until: AbortSignal) => Promise<Holding>
  readonly rest: () => void
  readonly trialNumber: number
  readonly signal: AbortSignal
  readonly onWaiting?: OnWaiting
  /** What the template's `prepare` step made. */
  readonly prepared?: Prepared
}

const launchOnce = async (
  launch: Launch,
  cleanup: Cleanup,
  stopAll: () => Promise<void>,
): Promise<Predictor> => {
  const { options, holding, asked, prepared } = launch
  const startedMs = performance.now()
  const started = await startProcess(launch, cleanup)
  const { group, log, causeOf } = started
  const { target, provenance, httpUrl } = await untilItServes(launch, started)
  const launchSeconds = (performance.now() - startedMs) / 1000
  const pids = () => group.members().map(({ pid }) => pid)
  const engine = options.template.kind === 'command' ? tellingEngine(options.template) : undefined
  // What they tell is of the time since their first reading.
  const probes = () => [
    ...(options.template.kind === 'builtin'
      ? [metricsProbe(httpUrl, asked.gpu !== undefined)]
      : []),
    ...(engine === undefined ? [] : [engineProbe(httpUrl, engine)]),
    ...(holding.devices.length > 0 ? [heldProbe(holding.devices, pids)] : []),
    // Beside an emulated GPU the processors' energy would be taken for the whole.
    ...(provenance === 'emulated' ? [] : [raplProbe()]),
  ]
  let sampler = sampleUsage(group.members, probes(), launchSeconds)
  cleanup.add(() => sampler.stop())

  let stopped = false
  return {
    target: { ...target, serverPids: pids },
    protocol: options.protocol.name,
    provenance,
    isolation: started.isolationBy(holding),
    ...(provenance === 'emulated' && {
      move: async (other, until) => {
        const taken = await launch.hold(other, until)
        await moveTo(options.machine, taken, pids())
        return started.isolationBy(taken)
      },
      rest: launch.rest,
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
      sampler = sampleUsage(group.members, probes(), launchSeconds)
    },
    died: new Promise((tell) => {
      group.exited.then((exit) => {
        if (stopped) return
        const cause = causeOf(exit)
        tell({
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

/** A predictor's processes, which may not serve yet. */
interface Started {
  readonly group: ProcessGroup
  readonly log: PredictorLog
  /** Where it serves: known for a port that was reserved, else what it says itself. */
  readonly announced: Announcement | Promise<Announcement>
  /** What holds it to its share, in words. */
  isolationBy(holding: Holding): string
  causeOf(exit: Exit | undefined): Cause
}

/**
 * Starts the processes with their log, port, files, control group and cores, and notes each for
 * whoever sweeps after a crash.
 */
const startProcess = async (launch: Launch, cleanup: Cleanup): Promise<Started> => {
  const { options, runningDirectory, holding, signal } = launch
  const { template, machine } = options
  const builtin = template.kind === 'builtin'
  const folder = trialFolder(launch)
  const announced = createAnnouncement()
  const log = onDisk(() =>
    openLog(folder, options.logLimitBytes, builtin ? announced.read : undefined),
  )
  cleanup.add(log.close)
  const port = builtin ? undefined : await portOf(cleanup)
  const command = commandOf(launch, folder, port)
  const env = { ...environmentOf(holding), ...command.env, ...whose(launch) }
  const cwd = command.cwd ?? process.cwd()
  const tuned = template.kind === 'command' && template.command[0]?.includes('${') === true
  checkProgram(
    command.argv[0]!,
    cwd,
    env.PATH ?? '',
    tuned ? 'configuration' : 'experiment',
    installOf(template),
  )
  onDisk(() => writeFiles(folder, command.files))
  const controlGroup = await controlGroupOf(
    launch,
    'memoryMiB' in launch.configuration ? launch.asked.memoryMiB : undefined,
  )
  cleanup.add(controlGroup.end)
  const affinity = affinityOf(machine, holding)
  const killsBefore = memoryKills()
  signal.throwIfAborted()
  cleanup.add(watchOver(runningDirectory))
  const note = onDisk(() => noteRunning(runningDirectory, controlGroup.folders))
  cleanup.add(note.remove)
  const group = await startGroup(
    {
      argv: controlGroup.wrap([...affinity.prefix, ...command.argv]),
      env,
      cwd,
      tied: builtin,
    },
    note.cookie,
    log,
    controlGroup.folders,
  )
  cleanup.add(async () => {
    await group.stop(options.graceMs ?? defaultGraceMs)
    if (port !== undefined) await checkLeft(port, group.identity, log)
  })
  onDisk(() => note.started(group.identity, port))
  return {
    group,
    log,
    announced: port === undefined ? announced.heard : { port, provenance: 'measured' },
    isolationBy: ({ coresWords, gpuWords }) =>
      [`${coresWords} ${affinity.words}`, controlGroup.words, gpuWords]
        .filter((part) => part !== undefined)
        .join('; '),
    causeOf: (exit) =>
      diagnose(
        exit,
        log.tail(200),
        killedForMemory(controlGroup, killsBefore),
        builtin ? builtinExitCodes : {},
      ),
  }
}

/** What brings its server here, where that is known. */
const installOf = (template: LocalLauncherOptions['template']) =>
  template.kind === 'command' ? serverInstall(template.server) : undefined

const portOf = async (cleanup: Cleanup): Promise<number> => {
  const { port, giveBack } = await reservePort(host)
  cleanup.add(giveBack)
  return port
}

const controlGroupOf = (
  { options, asked, trialNumber }: Launch,
  memoryMiB?: number,
): Promise<ControlGroup> =>
  createControlGroup(options.machine.cgroups, groupName(trialNumber), {
    cpuCores: Number.isInteger(asked.cpuCores) ? undefined : asked.cpuCores,
    memoryMiB,
    hold: options.template.kind !== 'builtin',
  })

const untilItServes = async (
  { options, signal, onWaiting }: Launch,
  { group, log, announced, causeOf }: Started,
) => {
  const { template, protocol, payload } = options
  const timeoutMs = (template.readyTimeoutS ?? defaultReadyTimeoutS) * 1000
  const deadlineMs = performance.now() + timeoutMs
  const ended = new AbortController()
  group.exited.then((exit) => ended.abort(exit))
  const until = AbortSignal.any([signal, ended.signal])
  let taken = () => false
  try {
    const { port, grpcPort, provenance } = await within(announced, timeoutMs, until)
    const url = `http://${host}:${grpcPort ?? port}`
    const pids = () => group.members().map(({ pid }) => pid)
    const otherPorts = () =>
      template.kind === 'builtin' ? [] : portsOf(pids()).filter((other) => other !== port)
    const endpoint = {
      protocol,
      url,
      model: template.model,
      payload,
      otherPorts,
      onReason: (reason: string) => onWaiting?.(reason, 'loading'),
    }
    taken = () => isTaken(port, group, log)
    const target = await untilServing(endpoint, deadlineMs - performance.now(), until)
    if (taken()) throw new PortTakenError(`another server answers on port ${port}`)
    return { target, provenance, httpUrl: `http://${host}:${port}` }
  } catch (error) {
    signal.throwIfAborted()
    const why = whyNot(
      error,
      ended.signal.aborted ? (ended.signal.reason as Exit) : undefined,
      options,
      { causeOf, log },
    )
    const itsOwn =
      why instanceof PortTakenError ||
      (why instanceof InfeasibleError && why.reason === 'out-of-memory')
    // What answered badly, or not at all, was not the predictor.
    throw !itsOwn && taken()
      ? new PortTakenError(`another server uses its port; ${why.message}`)
      : why
  }
}

/** Why it does not serve. @param exit where it has ended */
const whyNot = (
  error: unknown,
  exit: Exit | undefined,
  options: LocalLauncherOptions,
  { causeOf, log }: Pick<Started, 'causeOf' | 'log'>,
): Error => {
  if (error instanceof PortTakenError) return error
  if (exit !== undefined) {
    const install = installOf(options.template)
    const final = install === undefined && reachesIt(options) ? 'configuration' : 'experiment'
    return launchFailure(causeOf(exit), describeExit(exit), log, final, install)
  }
  if (error instanceof NeverReadyError) return neverReady(causeOf(undefined), error, log)
  // Anything else is no word of the predictor's: a payload file that cannot be read, say.
  if (!(error instanceof Error) || error.name !== 'ProtocolError') throw error
  return noGoodAnswer(error, log)
}

const trialFolder = ({ options, trialNumber }: Launch): string =>
  onDisk(() => makePrivateFolder(join(options.runDirectory, 'trials', String(trialNumber))))

/** What the template's `prepare` step made, on the trial's own cores and GPU. */
const preparedFor = async (launch: Launch): Promise<Prepared | undefined> => {
  const { options, configuration, asked, holding } = launch
  const { template, machine } = options
  if (template.kind !== 'command' || template.prepare === undefined) return undefined
  const step = fillPrepare(
    template.prepare,
    { ...options.defaults, ...configuration },
    heldValues(launch, template.model),
  )
  return prepare(
    step,
    {
      preparedDirectory: join(dirname(options.runDirectory), 'prepared'),
      runningDirectory: launch.runningDirectory,
      folder: trialFolder(launch),
      env: { ...environmentOf(holding), ...whose(launch) },
      cwd: template.cwd ?? process.cwd(),
      prefix: affinityOf(machine, holding).prefix,
      controlGroup: () => controlGroupOf(launch),
      device: asked.gpu && `${asked.gpu} ${asked.migProfile ?? ''}`,
      graceMs: options.graceMs ?? defaultGraceMs,
      logLimitBytes: options.logLimitBytes,
    },
    launch.signal,
  )
}

const heldValues = ({ asked, holding }: Launch, model: string): LauncherValues => ({
  model,
  cpuCores: asked.cpuCores,
  gpuMemoryMiB: asked.gpuMemoryMiB ?? 0,
  gpuMemoryFraction: holding.gpuMemoryFraction ?? 0,
})

/** Whether another server listens on a port, beside the predictor or in its place. */
const isTaken = (port: number, group: ProcessGroup, log: PredictorLog): boolean => {
  const listeners = listenersOn(
    port,
    group.members().map(({ pid }) => pid),
  )
  if (listeners === undefined || listeners.total === 0) return false
  if (listeners.byCandidates > 0) return listeners.byCandidates < listeners.total
  return saysPortTaken(log.tail(200)) || strangersOn(port, group.identity)
}

/** Whether a value of the configuration reaches it, so that another one may do better. */
const reachesIt = ({ parameters }: LocalLauncherOptions): boolean =>
  parameters.some(({ category }) => category !== 'resource')

const commandOf = (launch: Launch, folder: string, port: number | undefined): FilledTemplate => {
  const { options, configuration, asked, holding } = launch
  const { template } = options
  if (template.kind === 'builtin')
    return builtinCommand(
      template,
      { ...options.defaults, ...configuration },
      asked,
      holding,
      options.machine,
      options.ownGpus,
    )
  const values: LauncherValues = {
    ...heldValues(launch, template.model),
    host,
    port,
    trial: launch.trialNumber,
    dir: folder,
    coreList: holding.coreList,
    prepared: launch.prepared?.folder,
  }
  return fillCommand(
    template,
    options.parameters,
    { ...options.defaults, ...configuration },
    values,
  )
}

const resourcesAsked = (configuration: Configuration, options: LocalLauncherOptions): Resources => {
  try {
    return resourcesOf(configuration, options.defaults, options.ownGpus)
  } catch (error) {
    throw new LaunchError(
      `configuration: ${(error as Error).message}`,
      'correct the search space of the experiment',
    )
  }
}

const killedForMemory = (
  controlGroup: ControlGroup,
  before: number | undefined,
): boolean | undefined => {
  if ((controlGroup.memoryKills() ?? 0) > 0) return true
  const now = memoryKills()
  return now === undefined || before === undefined ? undefined : now > before
}

/** By which `tune clean` finds it. */
const whose = ({ runningDirectory, options }: Launch): Record<string, string> => ({
  [folderVariable]: runningDirectory,
  [experimentVariable]: basename(options.runDirectory),
})

/**
 * Ours, with what the trial holds; HIP reads CUDA_VISIBLE_DEVICES too, and vLLM ends where it names
 * other GPUs than HIP_VISIBLE_DEVICES.
 */
const environmentOf = ({ env }: Holding): Record<string, string> => {
  const { CUDA_VISIBLE_DEVICES, ...others } = process.env as Record<string, string>
  return {
    ...('HIP_VISIBLE_DEVICES' in env && CUDA_VISIBLE_DEVICES !== '' ? others : process.env),
    ...env,
  } as Record<string, string>
}
