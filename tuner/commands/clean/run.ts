/** `tune clean`: what experiments left on a cluster, and its removal. */
import { connect } from '../../../trials/launchers/kubernetes/api.ts'
import { labelNames } from '../../../trials/launchers/kubernetes/manifests.ts'
import { findObjects, type Kind, removeObjects } from '../../../trials/launchers/kubernetes/sweep.ts'
import { exitCodes, UserError } from '../../exit-codes.ts'
import { table } from '../../render/columns.ts'

export interface CleanFlags {
  readonly namespace?: string
  readonly all?: boolean
  readonly json?: boolean
}

/** Jobs first: they would make their pods anew. */
const kinds: readonly Kind[] = ['jobs', 'pods', 'resourceclaimtemplates', 'configmaps']

/** Lists without an experiment, removes with one or with --all. Returns the exit code. */
export async function clean(experiment: string | undefined, flags: CleanFlags): Promise<number> {
  if (experiment !== undefined && flags.all)
    throw new UserError('tune clean: an experiment beside --all', 'give one of them', exitCodes.usage)
  const api = await connect(flags.namespace)
  try {
    const found = await findObjects(api, experiment === undefined ? '' : `${labelNames.experiment}=${experiment}`, kinds)
    const experiments = [...new Set(found.map((object) => object.experiment))]
    const remove = experiment !== undefined || flags.all === true
    if (remove) {
      for (const id of experiments) await removeObjects(api, `${labelNames.experiment}=${id}`, { kinds })
    }
    if (flags.json) process.stdout.write(`${JSON.stringify({ namespace: api.namespace, removed: remove, objects: found }, null, 2)}\n`)
    else if (found.length === 0) process.stdout.write(`nothing of ${experiment ?? 'any experiment'} in namespace ${api.namespace}\n`)
    else {
      const rows = found.map(({ kind, name, createdAt, experiment }) => [experiment, `${kind}/${name}`, createdAt])
      process.stdout.write(`${table(rows).join('\n')}\n`)
      const hint = 'still running, or left behind: remove with `tune clean EXPERIMENT` or `tune clean --all`'
      process.stdout.write(remove ? `removed from namespace ${api.namespace}\n` : `in namespace ${api.namespace}; ${hint}\n`)
    }
    return exitCodes.ok
  } finally {
    api.close()
  }
}
