/** The generated parts of docs/reference/spec-targets.md, from the registry of targets. */
import { serverTitles } from '../../reports/figures.ts'
import { loadTarget, specTargets } from '../../reports/specs/index.ts'
import { type SpecTarget, specFlags } from '../../reports/specs/target.ts'
import { gpuSchemes } from '../../trials/launchers/kubernetes/gpus/gpu-selection.ts'
import { code, codeList, table } from './markdown.ts'

export async function specTargetsRegions(): Promise<Record<string, string>> {
  const targets = await Promise.all(
    specTargets.map(async (name) => ({ name, target: await loadTarget(name) })),
  )
  return {
    targets: table(
      ['`--target`', 'for', 'files', 'what they hold', 'needs', 'replicas are set by'],
      targets.map(({ name, target }) => [
        code(name),
        target.title,
        codeList(target.files),
        target.writes,
        target.needs,
        target.scaledBy ?? '',
      ]),
    ),
    capabilities: table(
      [
        '`--target`',
        'deploys',
        'flags of its own',
        '`--namespace`',
        '`--image`',
        '`--model-uri`',
        'own pod',
        'pipelines',
      ],
      targets.map(({ name, target }) => [
        code(name),
        serversText(target),
        codeList((target.takes ?? []).map((option) => specFlags[option])),
        yes(target.isNamespaced),
        yes(!target.hasNoImage),
        target.refusesModelUri ? 'no' : 'yes',
        yes(target.takesOwnPod),
        yes(target.pipeline !== undefined),
      ]),
    ),
    'GPU schemes': codeList(gpuSchemes),
  }
}

const yes = (is: boolean | undefined): string => (is ? 'yes' : 'no')

/** A target that deploys the user's own command deploys every server. */
const serversText = ({ servers }: SpecTarget): string =>
  servers.includes('command')
    ? 'every server'
    : servers.map((server) => serverTitles[server]).join(', ')
