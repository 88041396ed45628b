{{/*
The values over the defaults of values.yaml, so that null is the default, as is a value that an earlier release did not
have (`--reuse-values`). Each template begins with it.
*/}}
{{- define "plexus.values" -}}
{{- $_ := set . "Values" (mergeOverwrite (.Files.Get "files/values.yaml" | fromYaml) .Values) -}}
{{- end -}}

{{/* What each of these values needs to have an effect. */}}
{{- define "plexus.needs" -}}
admission.pluginTypes: admission.definitions
admission.statusWriters: admission.status
agent.anyOwner: agent.enabled
metrics.labels: metrics.monitoring
metrics.monitoring: metrics.enabled
metrics.port: metrics.enabled
metrics.serviceAnnotations: metrics.serviceMonitor
metrics.serviceMonitor: metrics.monitoring
metrics.tlsConfig: metrics.monitoring
resourcesInjector.certificate: resourcesInjector.enabled
resourcesInjector.image: resourcesInjector.enabled
resourcesInjector.key: resourcesInjector.enabled
startupTaint.key: startupTaint.enabled
{{- end -}}

{{/* A line for each value that has no effect. A switch that is on fails instead: only Helm itself shows its notes. */}}
{{- define "plexus.withoutEffect" -}}
{{- $defaults := .Files.Get "files/values.yaml" | fromYaml -}}
{{- range $path, $needed := include "plexus.needs" . | fromYaml -}}
{{- $names := splitList "." $path -}}
{{- $section := get $.Values (first $names) -}}
{{- $value := get $section (last $names) -}}
{{- if not (get $section (splitList "." $needed | last)) -}}
{{- $line := printf "%s has no effect without %s=true" $path $needed -}}
{{- if eq (toJson $value) "true" -}}
{{- fail $line -}}
{{- else if ne (toJson $value) (get (get $defaults (first $names)) (last $names) | toJson) }}
{{ $line }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $name, $_ := .Values.global }}
global.{{ $name }} has no effect: set image.repository, imagePullSecrets and the like
{{- end -}}
{{- end -}}

{{/*
True if Helm renders for a cluster. `helm template | kubectl apply` would create the objects of all hooks: the Job of
the pre-delete hook would uninstall Plexus.
*/}}
{{- define "plexus.hasHooks" -}}
{{- if .Capabilities.APIVersions.Has "apps/v1/DaemonSet" }}true{{ end -}}
{{- end -}}

{{/* The suffix of the image's tag: what the values need the image to contain. */}}
{{- define "plexus.imageSuffix" -}}
{{- if eq .Values.flavour "thin" }}-standalone{{ end -}}
{{- if or .Values.referencePlugins.enabled .Values.dhcp.enabled }}-plugins{{ end -}}
{{- end -}}

{{/* The image: the values', else the release's with this suffix, by its digest if files/digests.yaml has it. */}}
{{- define "plexus.image" -}}
{{- $default := index (.Files.Get "files/image/kustomization.yaml" | fromYaml).images 0 -}}
{{- $suffix := include "plexus.imageSuffix" . -}}
{{- $digest := get (.Files.Get "files/digests.yaml" | fromYaml) $suffix | default (ternary $default.digest "" (eq $suffix "")) -}}
{{- $image := .Values.image -}}
{{- $name := $image.repository | default $default.newName -}}
{{- if $image.digest -}}
{{ $name }}@{{ $image.digest }}
{{- else if $image.tag -}}
{{ $name }}:{{ $image.tag }}
{{- else if $digest -}}
{{ $name }}@{{ $digest }}
{{- else -}}
{{ $name }}:{{ $default.newTag | required (printf "image.tag: this chart has no image with the suffix %q" $suffix) }}{{ $suffix }}
{{- end -}}
{{- end -}}

{{/* What the value `platform` stands for, as YAML. */}}
{{- define "plexus.platform" -}}
{{- $platforms := .Files.Get "platforms.yaml" | fromYaml -}}
{{- if .Values.platform -}}
{{- get $platforms .Values.platform | required (printf "platform: %q is not in platforms.yaml" .Values.platform) | toYaml -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* What plexusd has to know about the installation, as YAML: the platform's configuration overrides deploy/base's. */}}
{{- define "plexus.platformConfig" -}}
{{- $base := .Files.Get "files/base/platform.yaml" | fromYaml -}}
{{- $config := get $base.data "platform.yaml" | fromYaml -}}
{{- $platform := include "plexus.platform" . | fromYaml -}}
{{- $config = mergeOverwrite $config ($platform.config | default dict) -}}
{{- if .Values.config.multusNamespace -}}
{{- if .Values.config.plexusNamespace -}}
{{- fail "config.multusNamespace is a former name of config.plexusNamespace: set only the latter" -}}
{{- end -}}
{{- else if ne .Release.Namespace "kube-system" -}}
{{- $_ := set $config "plexusNamespace" .Release.Namespace -}}
{{- end -}}
{{- if .Values.startupTaint.enabled -}}
{{- $_ := set $config "startupTaint" .Values.startupTaint.key -}}
{{- end -}}
{{- if .Values.networkPlacement.enabled -}}
{{- $_ := set $config "networkPlacement" (list "labels" "resources") -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{/* The installation's part of plexusd's configuration, as YAML: the value `config` over the platform's. */}}
{{- define "plexus.config" -}}
{{- mergeOverwrite (include "plexus.platformConfig" . | fromYaml) (deepCopy .Values.config) | toYaml -}}
{{- end -}}

{{/* A checksum of the keys that plexusd reads only when it starts, so that their change replaces its pods. */}}
{{- define "plexus.startChecksum" -}}
{{- $config := include "plexus.config" . | fromYaml -}}
{{- $read := dict -}}
{{- range $path := .Files.Get "start-keys.yaml" | fromYamlArray -}}
{{- $_ := set $read $path (get $config $path) -}}
{{- end -}}
{{- $read | toJson | sha256sum -}}
{{- end -}}

{{/* The directory that the shim is installed in: of several, the first. */}}
{{- define "plexus.shimDir" -}}
{{- if kindIs "slice" .cniBinDir }}{{ first .cniBinDir }}{{ else }}{{ .cniBinDir }}{{ end -}}
{{- end -}}

{{/* The text of a file of deploy/, with this release's namespace and image. Takes (list ROOT FILE). */}}
{{- define "plexus.text" -}}
{{- $root := index . 0 -}}
{{- $file := printf "files/%s" (index . 1) -}}
{{- $root.Files.Get $file | required (printf "the chart has no %s" $file) | replace "kube-system" $root.Release.Namespace | replace "image: plexus\n" (printf "image: %s\n" (include "plexus.image" $root)) -}}
{{- end -}}

{{/* An object with the labels of this release. Takes (list ROOT OBJECT). */}}
{{- define "plexus.object" -}}
{{- $root := index . 0 -}}
{{- $object := index . 1 -}}
{{- $labels := $object.metadata.labels | default dict -}}
{{- $_ := set $labels "app.kubernetes.io/instance" $root.Release.Name -}}
{{- $_ := set $labels "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $_ := set $labels "app.kubernetes.io/version" $root.Chart.AppVersion -}}
{{- $_ := set $labels "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63) -}}
{{- $_ := set $object.metadata "labels" $labels -}}
---
{{ toYaml $object }}
{{ end -}}

{{/* The objects of a file of deploy/ as they are. Takes (list ROOT FILE). */}}
{{- define "plexus.objects" -}}
{{- $root := index . 0 -}}
{{- range regexSplit "(?m)^---$" (include "plexus.text" .) -1 -}}
{{- include "plexus.object" (list $root (fromYaml .)) -}}
{{- end -}}
{{- end -}}

{{/* The object of one kind in a file of deploy/, as YAML. Takes (list ROOT FILE KIND). */}}
{{- define "plexus.ofKind" -}}
{{- $kind := index . 2 -}}
{{- range regexSplit "(?m)^---$" (include "plexus.text" .) -1 -}}
{{- $object := fromYaml . -}}
{{- if eq $object.kind $kind -}}
{{- toYaml $object -}}
{{- end -}}
{{- end -}}
{{- end -}}
