/**
 * Secrets of a trial's pod as a Secret of its own, which goes with the pod and with the ConfigMap
 * that owns both: whoever may see pods need not see what is in them.
 */
import { withoutSecrets } from '../../secrets.ts'
import type { Json } from './manifests.ts'

interface Env {
  readonly name: string
  readonly value?: string
}
interface Container {
  readonly env?: readonly Env[]
  readonly command?: readonly string[]
  readonly args?: readonly string[]
}

/** @param metadata of the Secret */
export function withPodSecrets(
  pod: Json,
  metadata: Json & { readonly name: string },
): { readonly pod: Json; readonly secret?: Json } {
  const data: Record<string, string> = {}
  const keyOf = (value: string): string => {
    const known = Object.entries(data).find(([, other]) => other === value)?.[0]
    const key = known ?? `secret-${Object.keys(data).length + 1}`
    data[key] = value
    return key
  }
  const fromSecret = (name: string, value: string) => ({
    name,
    valueFrom: { secretKeyRef: { name: metadata.name, key: keyOf(value) } },
  })
  const spec = pod.spec as Json
  const changed = Object.fromEntries(
    (['initContainers', 'containers'] as const).flatMap((list) => {
      const containers = spec[list] as readonly Container[] | undefined
      return containers === undefined
        ? []
        : [[list, containers.map((container) => withReferences(container, fromSecret))]]
    }),
  )
  if (Object.keys(data).length === 0) return { pod }
  return {
    pod: { ...pod, spec: { ...spec, ...changed } },
    secret: { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', stringData: data },
  }
}

const holdsSecret = (text: string | undefined): text is string =>
  text !== undefined && withoutSecrets(text) !== text

/**
 * Variables by reference; words of commands by a variable, which the kubelet puts in their place.
 */
function withReferences(
  container: Container,
  fromSecret: (name: string, value: string) => object,
): Container {
  const added: object[] = []
  const word = (text: string): string => {
    // A word that names variables itself would lose them: what a Secret holds is not expanded
    // again.
    if (!holdsSecret(text) || text.includes('$(')) return text
    const name = `TUNE_SECRET_WORD_${added.length + 1}`
    added.push(fromSecret(name, text))
    return `$(${name})`
  }
  const { env = [], command, args } = container
  const words = {
    ...(command && { command: command.map(word) }),
    ...(args && { args: args.map(word) }),
  }
  const variables = env.map((one) =>
    holdsSecret(one.value) && !one.value.includes('$(') ? fromSecret(one.name, one.value) : one,
  )
  return {
    ...container,
    ...words,
    ...(variables.length + added.length > 0 && { env: [...variables, ...added] as Env[] }),
  }
}
