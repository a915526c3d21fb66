/** Starts the processes of a predictor, after everything that they need. */
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
import { watchOver } from './warden.ts'

/** A predictor's processes, which may not serve yet. */
export interface StartedProcess {
  readonly group: ProcessGroup
  readonly log: PredictorLog
  /** Its address: the reserved port, or the announcement of the built-in predictor. */
  readonly announced: Announcement | Promise<Announcement>
  /** Describes what limits it to its share. */
  describeIsolation(reservation: ResourceReservation): string
  diagnose(exit: Exit | undefined): Cause
}

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

  const port = isBuiltin ? undefined : await takePort(cleanup)
  const command = fillLaunchCommand(launch, folder, port)
  const env = {
    ...createInheritedEnvironment(reservation),
    ...command.env,
    ...createOwnerVariables(launch),
  }
  const cwd = command.cwd ?? process.cwd()
  const tuned = template.kind === 'command' && template.command[0]?.includes('${') === true
  const finality = tuned ? 'configuration' : 'experiment'
  checkProgram(command.argv[0]!, cwd, env.PATH ?? '', finality, findInstallHint(template))
  writeToDisk(() => writeFiles(folder, command.files))

  const controlGroup = await createTrialControlGroup(launch, getMemoryLimitMiB(launch))
  cleanup.add(controlGroup.end)
  const affinity = createAffinityCommand(machine, reservation)
  const killedSinceStart = watchMemoryKills()
  signal.throwIfAborted()

  cleanup.add(watchOver(runningDirectory))
  const note = writeToDisk(() => writeRunningNote(runningDirectory, controlGroup.folders))
  cleanup.add(note.remove)
  const argv = controlGroup.wrap([...affinity.prefix, ...command.argv])
  const group = await startGroup(
    { argv, env, cwd, tied: isBuiltin },
    note.cookie,
    log,
    controlGroup.folders,
  )
  cleanup.add(async () => {
    await group.stop(options.graceMs ?? defaultGraceMs)
    if (port !== undefined) await checkNoListenerLeft(port, group.identity, log)
  })
  writeToDisk(() => note.addProcesses(group.identity, port))

  return {
    group,
    log,
    announced: port === undefined ? announcement.heard : { port, provenance: 'measured' },
    describeIsolation: ({ coresWords, gpuWords }) =>
      [`${coresWords} ${affinity.words}`, controlGroup.limitsText, gpuWords]
        .filter((part) => part !== undefined)
        .join('; '),
    diagnose: (exit) =>
      diagnose(
        exit,
        log.tail(200),
        wasKilledForMemory(controlGroup) || killedSinceStart(),
        isBuiltin ? builtinExitCodes : {},
      ),
  }
}

async function takePort(cleanup: Cleanup): Promise<number> {
  const { port, giveBack } = await reservePort(host)
  cleanup.add(giveBack)
  return port
}

/** The command, environment and files of the trial. */
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

/** Memory is limited only where the configuration names it. */
const getMemoryLimitMiB = ({ configuration, resources }: Launch): number | undefined =>
  'memoryMiB' in configuration ? resources.memoryMiB : undefined

const wasKilledForMemory = (controlGroup: ControlGroup): boolean =>
  (controlGroup.memoryKills() ?? 0) > 0

/** Finds how to install the template's server, if that is known. */
export const findInstallHint = (template: LocalLauncherOptions['template']): string | undefined =>
  template.kind === 'command' ? getServerInstall(template.server) : undefined
