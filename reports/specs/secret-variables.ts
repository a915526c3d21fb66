/**
 * Replaces references to secrets in the settings of a container by environment variables from a
 * Secret: a spec never contains a secret value.
 */
import { findReferences, isReference, replaceReferences } from '../../trials/secrets.ts'

import { describeMissing } from './placeholders.ts'

type Fields = Readonly<Record<string, unknown>>

/** The settings of a container that may contain secrets. */
interface ContainerSettings {
  readonly command?: readonly string[]
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  readonly files?: readonly { readonly path: string; readonly contents: string }[]
  readonly notes?: readonly string[]
  readonly secretEnv?: readonly string[]
  readonly optionalSecretEnv?: readonly string[]
}

/**
 * Variable for a secret by the name of its reference: 'env:HF_TOKEN' → 'HF_TOKEN'; for a place in a
 * file the last two steps, 'tune.yaml#/headers/authorization' → 'HEADERS_AUTHORIZATION'. The number
 * of a secret within one place ('…!2') is left out.
 */
const nameVariable = (name: string): string =>
  name.startsWith('env:')
    ? name.slice('env:'.length)
    : decodeURIComponent(name)
        .replace(/!\d+$/, '')
        .split(/[#/]/)
        .filter((step) => step !== '')
        .slice(-2)
        .join('_')
        .replace(/[^A-Za-z0-9]+/g, '_')
        .replace(/^_+|_+$/g, '')
        .toUpperCase()

/**
 * Puts `$(VARIABLE)`, which Kubernetes replaces, in place of each reference: `Bearer ${env:TOKEN}`
 * → `Bearer $(TOKEN)`.
 * @param variables gets the names of the variables
 */
function replaceByVariables(text: string, variables: Set<string>): string {
  return replaceReferences(text, (name) => {
    const variable = nameVariable(name)
    variables.add(variable)
    return `$(${variable})`
  })
}

/**
 * Whether a text is one reference and nothing else, such as `${env:TOKEN}`. A variable with such a
 * value gets it from the Secret, and needs no second variable.
 */
const isSingleReference = (text: string): boolean =>
  /^\$\{[^}]*\}$/.test(text) && isReference(text.slice(2, -1))

/** The container with variables in place of every reference; `secretEnv` names them. */
export function replaceSecrets<Container extends ContainerSettings>(
  container: Container,
): Container {
  const texts = [
    ...(container.command ?? []),
    ...(container.args ?? []),
    ...Object.values(container.env ?? {}),
  ]
  const inFiles = (container.files ?? []).filter(
    ({ contents }) => findReferences(contents).length > 0,
  )
  if (texts.every((text) => findReferences(text).length === 0) && inFiles.length === 0)
    return container
  const variables = new Set<string>()
  const env = Object.entries(container.env ?? {}).flatMap(([name, text]) => {
    if (!isSingleReference(text)) return [[name, replaceByVariables(text, variables)] as const]
    variables.add(name)
    return []
  })
  const replaceInWords = (list: readonly string[] | undefined) =>
    list?.map((word) => replaceByVariables(word, variables))
  return {
    ...container,
    command: replaceInWords(container.command),
    args: replaceInWords(container.args),
    env: Object.fromEntries(env),
    secretEnv: [...variables].sort(),
    notes: [
      ...(container.notes ?? []),
      ...inFiles.map(({ path }) =>
        describeMissing(`${path} lacks a secret`, 'Mount the file from a Secret of your own.'),
      ),
    ],
  }
}

/** The name of the Secret of a serving. */
const nameSecret = (name: string): string => `${name}-secrets`

/**
 * Environment entry that takes a variable from the Secret.
 * @param optional the container starts without it too
 */
export const buildSecretVariable = (
  variable: string,
  servingName: string,
  optional = false,
): Fields => ({
  name: variable,
  valueFrom: {
    secretKeyRef: { name: nameSecret(servingName), key: variable, ...(optional && { optional }) },
  },
})

/** The command that creates the Secret; empty if none is needed. */
export function describeSecret(
  { secretEnv = [], optionalSecretEnv = [] }: ContainerSettings,
  servingName: string,
): string[] {
  const allVariables = [...secretEnv, ...optionalSecretEnv]
  if (allVariables.length === 0) return []
  const command = `kubectl create secret generic ${nameSecret(servingName)} ${allVariables.map((name) => `--from-literal=${name}="$${name}"`).join(' ')}`
  if (secretEnv.length > 0)
    return [
      describeMissing(`Secret ${nameSecret(servingName)} must exist`, `Create it: ${command}`),
    ]
  return [
    `a model that is not public needs ${allVariables.join(', ')} in Secret ${nameSecret(servingName)}: ${command}`,
  ]
}

/** The user's own pod with variables in place of every reference. */
export function replacePodSecrets<Pod extends { readonly spec: Fields }>(
  pod: Pod,
  servingName: string,
): { readonly pod: Pod; readonly secretEnv: readonly string[] } {
  const secretVariables = new Set<string>()
  const replaceInContainer = (container: Fields): Fields => {
    const variables = new Set<string>()
    const env = ((container.env as Fields[] | undefined) ?? []).map((entry) => {
      if (typeof entry.value !== 'string' || findReferences(entry.value).length === 0) return entry
      if (!isSingleReference(entry.value))
        return { ...entry, value: replaceByVariables(entry.value, variables) }
      secretVariables.add(String(entry.name))
      return buildSecretVariable(String(entry.name), servingName)
    })
    const replaceInWords = (list: unknown) =>
      Array.isArray(list)
        ? list.map((word) =>
            typeof word === 'string' ? replaceByVariables(word, variables) : word,
          )
        : list
    const replaced = {
      ...container,
      command: replaceInWords(container.command),
      args: replaceInWords(container.args),
    }
    for (const variable of variables) secretVariables.add(variable)
    const existingNames = new Set(env.map(({ name }) => name))
    // Kubernetes inserts only variables that stand before the one whose value names them.
    const added = [...variables]
      .filter((variable) => !existingNames.has(variable))
      .map((variable) => buildSecretVariable(variable, servingName))
    return added.length + env.length === 0 ? replaced : { ...replaced, env: [...added, ...env] }
  }
  const lists = ['containers', 'initContainers'].flatMap((key) => {
    const list = pod.spec[key]
    return Array.isArray(list) ? [[key, (list as Fields[]).map(replaceInContainer)] as const] : []
  })
  return {
    pod: { ...pod, spec: { ...pod.spec, ...Object.fromEntries(lists) } },
    secretEnv: [...secretVariables].sort(),
  }
}
