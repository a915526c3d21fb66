/**
 * `tune clean`: lists and removes processes that killed tuners left on this machine, and objects of
 * experiments on a cluster.
 */
import { dirname, join, resolve } from 'node:path'
import { connect } from '../../../../trials/launchers/kubernetes/api/connect.ts'
import {
  type FoundObject,
  findObjects,
  type Kind,
  removeObjects,
} from '../../../../trials/launchers/kubernetes/cleanup/sweep.ts'
import { labelNames } from '../../../../trials/launchers/kubernetes/manifests/manifests.ts'
import {
  type AbandonedPredictor,
  endAbandoned,
  findAbandoned,
} from '../../../../trials/launchers/local/abandoned.ts'
import {
  endLeftGroups,
  findLeftGroups,
  type LeftGroup,
} from '../../../../trials/launchers/local/left-groups.ts'
import {
  describeListener,
  findLeftListeners,
} from '../../../../trials/launchers/local/leftovers.ts'
import { inspectCgroups } from '../../../../trials/machine/cgroups.ts'
import { exitCodes, UserError } from '../../../exit-codes.ts'
import { formatTable } from '../../render/columns.ts'

export interface CleanFlags {
  readonly db: string
  readonly namespace?: string
  readonly all?: boolean
  readonly local?: boolean
  readonly json?: boolean
}

/** Jobs first: they would recreate their pods. */
const kinds: readonly Kind[] = ['jobs', 'pods', 'resourceclaimtemplates', 'configmaps', 'leases']

/**
 * Lists without an experiment, removes with one or with --all.
 * @returns the exit code
 */
export async function clean(experiment: string | undefined, flags: CleanFlags): Promise<number> {
  if (experiment !== undefined && flags.all)
    throw new UserError(
      'tune clean: an experiment and --all exclude each other',
      'use only one of them',
      exitCodes.usage,
    )
  if (flags.local && flags.namespace !== undefined)
    throw new UserError(
      'tune clean: --namespace and --local exclude each other',
      'use only one of them',
      exitCodes.usage,
    )
  const remove = experiment !== undefined || flags.all === true
  const predictors = (findAbandoned() ?? []).filter(
    (one) => experiment === undefined || one.experiment === experiment,
  )
  if (remove) await endAbandoned(predictors)
  const controlGroups = findUnlistedGroups(predictors, experiment)
  if (remove) await endLeftGroups(controlGroups)
  const listening = await findLeftListeners(join(dirname(resolve(flags.db)), 'running'))
  const cluster = flags.local ? undefined : await cleanCluster(experiment, remove, flags)
  if (flags.json)
    process.stdout.write(
      `${JSON.stringify({ removed: remove, predictors, controlGroups, listening, ...cluster }, null, 2)}\n`,
    )
  else {
    const local = [
      ...formatLocal(predictors, controlGroups, experiment, remove),
      ...listening.map(describeListener),
    ]
    process.stdout.write(
      `${[...local, ...formatCluster(cluster, experiment, remove)].join('\n')}\n`,
    )
  }
  return exitCodes.ok
}

const hint = 'to remove them: `tune clean EXPERIMENT` or `tune clean --all`'

/**
 * Leftover control groups without those of listed predictors. They do not name their experiment, so
 * a single experiment has none.
 */
function findUnlistedGroups(
  predictors: readonly AbandonedPredictor[],
  experiment: string | undefined,
): LeftGroup[] {
  if (experiment !== undefined) return []
  const listedPids = new Set(predictors.flatMap(({ processes }) => processes.map(({ pid }) => pid)))
  return findLeftGroups(inspectCgroups()).filter(
    ({ pids }) => !pids.some((pid) => listedPids.has(pid)),
  )
}

function formatLocal(
  predictors: readonly AbandonedPredictor[],
  groups: readonly LeftGroup[],
  experiment: string | undefined,
  removed: boolean,
): string[] {
  if (predictors.length + groups.length === 0)
    return [`no remains of ${experiment ?? 'killed experiments'} on this machine`]
  const rows = predictors.flatMap(({ experiment, processes }) =>
    processes.map(({ pid, command }) => [experiment, `process ${pid}`, command.slice(0, 120)]),
  )
  for (const { folders, pids } of groups)
    rows.push([
      'control group',
      folders.join(', '),
      pids.length === 0 ? 'empty' : `with process ${pids.join(', ')}`,
    ])
  return [
    ...formatTable(rows),
    removed
      ? 'ended on this machine'
      : `still running on this machine after their tuner ended; ${hint}`,
  ]
}

interface ClusterObjects {
  readonly namespace: string
  readonly objects: readonly FoundObject[]
}

/** Undefined, with a message on stderr, if no cluster is reachable and no namespace was given. */
async function cleanCluster(
  experiment: string | undefined,
  remove: boolean,
  flags: CleanFlags,
): Promise<ClusterObjects | undefined> {
  const api = await connect(flags.namespace).catch((error: Error) => {
    if (flags.namespace !== undefined) throw error
    process.stderr.write(`the cluster was not checked: ${error.message}\n`)
    return undefined
  })
  if (api === undefined) return undefined
  try {
    const objects = await findObjects(
      api,
      experiment === undefined ? '' : `${labelNames.experiment}=${experiment}`,
      kinds,
    )
    const experiments = [...new Set(objects.map((object) => object.experiment))]
    if (remove)
      for (const id of experiments)
        await removeObjects(api, `${labelNames.experiment}=${id}`, { kinds })
    return { namespace: api.namespace, objects }
  } finally {
    api.close()
  }
}

function formatCluster(
  cluster: ClusterObjects | undefined,
  experiment: string | undefined,
  removed: boolean,
): string[] {
  if (cluster === undefined) return []
  const { namespace, objects } = cluster
  if (objects.length === 0)
    return [`no objects of ${experiment ?? 'experiments'} in namespace ${namespace}`]
  const rows = objects.map(({ kind, name, createdAt, experiment }) => [
    experiment,
    `${kind}/${name}`,
    createdAt,
  ])
  return [
    ...formatTable(rows),
    removed
      ? `removed from namespace ${namespace}`
      : `in namespace ${namespace}; still running, or left behind: ${hint}`,
  ]
}
