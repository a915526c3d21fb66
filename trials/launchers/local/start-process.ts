/** Starts a predictor's processes, after their folder, log, port, control group and warden. */
import type { Configuration } from '../../../search/types.ts'
import { getServerInstall } from '../../servers/preset.ts'
import {
  type Announcement,
  builtinExitCodes,
  createAnnouncement,
  createBuiltinCommand,
} from '../builtin.ts'
import type { Cleanup } from '../cleanup.ts'
import { type Cause, diagnose, type Exit, watchMemoryKills } from '../diagnosis.ts'
import { type FilledTemplate, fillCommand } from '../fill.ts'
import { listStageValues } from '../placeholders.ts'
import { openLog, type PredictorLog } from '../predictor-log.ts'
import { createAffinityCommand } from './affinity.ts'
import type { ControlGroup } from './control-group.ts'
import {
  createInheritedEnvironment,
  createOwnerVariables,
  createTrialControlGroup,
  defaultGraceMs,
  host,
  type Launch,
  type LocalLauncherOptions,
  listResourceValues,
  makeTrialFolder,
  writeFiles,
  writeToDisk,
} from './launch.ts'
import { writeRunningNote } from './leftovers.ts'
import { checkNoListenerLeft, reservePort } from './port.ts'
import { type ProcessGroup, startGroup } from './process-group.ts'
import { checkProgram } from './program.ts'
import type { ResourceReservation } from './resource-pool.ts'
import { watchPredictor } from './warden.ts'

/** Lines from the end of the log that a diagnosis searches. */
const diagnosedLogLines = 200

/** A predictor whose processes have started; it may not be ready yet. */
export interface StartedProcess {
  readonly group: ProcessGroup
  readonly log: PredictorLog
  /**
   * Where it listens: on the reserved port, or, for the built-in predictor, on the port that it
   * prints when ready.
   */
  readonly announced: Announcement | Promise<Announcement>
  /** Describes what confines it to its reservation: core affinity, control group, GPU share. */
  describeIsolation(reservation: ResourceReservation): string
  diagnose(exit: Exit | undefined): Cause
}

/**
 * Each step registers what undoes it before the next begins, so that an error or an abort at any
 * point leaves nothing behind.
 * @param cleanup collects what undoes the steps
 */
export const startProcess = async (launch: Launch, cleanup: Cleanup): Promise<StartedProcess> => {
  const { options, runningDirectory, reservation, signal } = launch
  const { template, machine } = options
  const isBuiltin = template.kind === 'builtin'

  const folder = makeTrialFolder(launch)
  const announcement = createAnnouncement()
  const log = writeToDisk(() =>
    openLog(folder, options.logLimitBytes, isBuiltin ? announcement.read : undefined),
  )
  cleanup.add(log.close)

  const port = isBuiltin ? undefined : await reservePortForTrial(cleanup)
  const command = fillLaunchCommand(launch, folder, port)
  const env = {
    ...createInheritedEnvironment(reservation),
    ...command.env,
    ...createOwnerVariables(launch),
  }
  const cwd = command.cwd ?? process.cwd()
  // A missing program fails only this configuration if the program itself is tuned, else all.
  const isProgramTuned = template.kind === 'command' && template.command[0]?.includes('${') === true
  const finality = isProgramTuned ? 'configuration' : 'experiment'
  checkProgram(command.argv[0]!, cwd, env.PATH ?? '', finality, findInstallHint(template))
  writeToDisk(() => writeFiles(folder, command.files))

  const controlGroup = await createTrialControlGroup(launch, getMemoryLimitMiB(launch))
  cleanup.add(controlGroup.end)
  const affinity = createAffinityCommand(machine, reservation)
  const hasMemoryKillSince = watchMemoryKills()
  signal.throwIfAborted()

  // The warden and the note come first: no predictor may outlive a tuner that is killed.
  cleanup.add(watchPredictor(runningDirectory))
  const runningNote = writeToDisk(() => writeRunningNote(runningDirectory, controlGroup.folders))
  cleanup.add(runningNote.remove)
  const argv = controlGroup.wrap([...affinity.prefix, ...command.argv])
  const group = await startGroup(
    { argv, env, cwd, endsWithTuner: isBuiltin },
    runningNote.cookie,
    log,
    controlGroup.folders,
  )
  cleanup.add(async () => {
    await group.stop(options.graceMs ?? defaultGraceMs)
    if (port !== undefined) await checkNoListenerLeft(port, group.identity, log)
  })
  writeToDisk(() => runningNote.addProcesses(group.identity, port))

  return {
    group,
    log,
    announced: port === undefined ? announcement.received : { port, provenance: 'measured' },
    describeIsolation: ({ coresText, gpuText }) =>
      [`${coresText} ${affinity.text}`, controlGroup.limitsText, gpuText]
        .filter((part) => part !== undefined)
        .join('; '),
    diagnose: (exit) =>
      diagnose(
        exit,
        log.tail(diagnosedLogLines),
        wasKilledForMemory(controlGroup) || hasMemoryKillSince(),
        isBuiltin ? builtinExitCodes : {},
      ),
  }
}

async function reservePortForTrial(cleanup: Cleanup): Promise<number> {
  const { port, release } = await reservePort(host)
  cleanup.add(release)
  return port
}

/** Fills the placeholders of the template: command, environment and files of the trial. */
function fillLaunchCommand(
  launch: Launch,
  folder: string,
  port: number | undefined,
): FilledTemplate {
  const { options, resources, reservation } = launch
  const { template, parameters, machine, ownGpus } = options
  const configuration: Configuration = { ...options.defaults, ...launch.configuration }
  if (template.kind === 'builtin')
    return createBuiltinCommand(
      template,
      configuration,
      resources,
      reservation.gpuMemoryFraction,
      machine,
      ownGpus,
    )
  return fillCommand(template, parameters, configuration, {
    ...listResourceValues(launch, template.model),
    ...listStageValues(options.stage?.urls),
    host,
    port,
    trial: launch.trialNumber,
    dir: folder,
    coreList: reservation.coreList,
    prepared: launch.prepared?.folder,
  })
}

/** Memory is limited only if the configuration has `memoryMiB`. */
const getMemoryLimitMiB = ({ configuration, resources }: Launch): number | undefined =>
  'memoryMiB' in configuration ? resources.memoryMiB : undefined

const wasKilledForMemory = (controlGroup: ControlGroup): boolean =>
  (controlGroup.memoryKills() ?? 0) > 0

/** Finds how to install the template's server; undefined if that is unknown. */
export const findInstallHint = (template: LocalLauncherOptions['template']): string | undefined =>
  template.kind === 'command' ? getServerInstall(template.server) : undefined
