/**
 * What requests ask of an API server, and what a Role grants, in the same words: 'batch jobs
 * create'.
 */
interface Rule {
  readonly apiGroups: readonly string[]
  readonly resources: readonly string[]
  readonly verbs: readonly string[]
}

export const granted = (rules: readonly Rule[]): string[] =>
  rules.flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((resource) => verbs.map((verb) => words(group, resource, verb))),
    ),
  )

const words = (group: string, resource: string, verb: string) =>
  `${group === '' ? 'core' : group} ${resource} ${verb}`

const verbs: Readonly<Record<string, string>> = {
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
}

/** @param request 'GET /api/v1/namespaces/n/pods (watch)'; undefined: it takes no right beyond that of anybody who is known (discovery, version, own rights) */
export function asked(request: string): string | undefined {
  const [, method = '', group = '', rest = '', watch] =
    /^(\S+) \/(?:api|apis\/([^/]+))\/v[^/]+\/(\S+)( \(watch\))?$/.exec(request) ?? []
  const [, resource, name, sub] =
    /^(?:namespaces\/[^/]+\/)?([a-z]+)(?:\/([^/]+))?(?:\/([a-z]+))?/.exec(rest) ?? []
  if (resource === undefined || group === 'authorization.k8s.io') return undefined
  const read = name !== undefined ? 'get' : watch ? 'watch' : 'list'
  return words(group, sub === undefined ? resource : `${resource}/${sub}`, verbs[method] ?? read)
}
