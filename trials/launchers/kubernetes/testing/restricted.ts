/**
 * What Pod Security's profile `restricted` has against a pod spec, for servers that do not check it
 * (before 1.23). https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
 */
import type { V1Container, V1PodSpec } from '@kubernetes/client-node'

const volumeKinds: ReadonlySet<string> = new Set([
  'configMap',
  'csi',
  'downwardAPI',
  'emptyDir',
  'ephemeral',
  'persistentVolumeClaim',
  'projected',
  'secret',
])

/** One line for each violation. */
export function restrictedViolations(spec: V1PodSpec): string[] {
  const pod = spec.securityContext ?? {}
  const shared = ['hostNetwork', 'hostPID', 'hostIPC'].filter(
    (key) => spec[key as 'hostPID'] === true,
  )
  const volumes = (spec.volumes ?? []).flatMap(({ name, ...kinds }) =>
    Object.entries(kinds).flatMap(([kind, value]) =>
      value && !volumeKinds.has(kind) ? [`volume ${name}: ${kind}`] : [],
    ),
  )
  const ofContainer = ({ name, securityContext: own = {}, ports = [] }: V1Container): string[] => {
    const seccomp = own.seccompProfile?.type ?? pod.seccompProfile?.type ?? ''
    return [
      ...((own.runAsNonRoot ?? pod.runAsNonRoot) === true ? [] : [`${name}: runAsNonRoot`]),
      ...((own.runAsUser ?? pod.runAsUser) === 0 ? [`${name}: runAsUser 0`] : []),
      ...(['RuntimeDefault', 'Localhost'].includes(seccomp) ? [] : [`${name}: seccompProfile`]),
      ...(own.allowPrivilegeEscalation === false ? [] : [`${name}: allowPrivilegeEscalation`]),
      ...(own.privileged ? [`${name}: privileged`] : []),
      ...(own.capabilities?.drop?.includes('ALL') ? [] : [`${name}: capabilities.drop`]),
      ...((own.capabilities?.add ?? []).some((one) => one !== 'NET_BIND_SERVICE')
        ? [`${name}: capabilities.add`]
        : []),
      ...(ports.some(({ hostPort }) => hostPort) ? [`${name}: hostPort`] : []),
    ]
  }
  return [
    ...shared,
    ...volumes,
    ...[...(spec.initContainers ?? []), ...spec.containers].flatMap(ofContainer),
  ]
}
