{{/* These change the pod's specification that they are given, and print nothing. */}}

{{/* Where all pods may run and what their image needs. Takes (list ROOT POD). */}}
{{- define "plexus.placePod" -}}
{{- $values := (index . 0).Values -}}
{{- $pod := index . 1 -}}
{{- $_ := set $pod "nodeSelector" (merge (deepCopy $values.nodeSelector) $pod.nodeSelector) -}}
{{- with $values.tolerations -}}
{{- $_ := set $pod "tolerations" . -}}
{{- end -}}
{{- $_ := set $pod "affinity" (merge (deepCopy $values.affinity) ($pod.affinity | default dict)) -}}
{{- range $name := list "priorityClassName" "imagePullSecrets" -}}
{{- with get $values $name -}}
{{- $_ := set $pod $name . -}}
{{- end -}}
{{- end -}}
{{- if $values.image.pullPolicy -}}
{{- range concat ($pod.initContainers | default list) $pod.containers -}}
{{- $_ := set . "imagePullPolicy" $values.image.pullPolicy -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the values add to the metadata of a DaemonSet's pods. Takes (list ROOT DAEMONSET). */}}
{{- define "plexus.annotatePods" -}}
{{- $values := (index . 0).Values -}}
{{- $metadata := (index . 1).spec.template.metadata -}}
{{- $_ := set $metadata "labels" (merge $metadata.labels $values.podLabels) -}}
{{- with $values.podAnnotations -}}
{{- $_ := set $metadata "annotations" (merge ($metadata.annotations | default dict) .) -}}
{{- end -}}
{{- end -}}

{{/* The directories and rules of the platform, for plexusd and for the uninstaller. Takes (list ROOT POD). */}}
{{- define "plexus.adaptPod" -}}
{{- $root := index . 0 -}}
{{- $pod := index . 1 -}}
{{- $config := include "plexus.config" $root | fromYaml -}}
{{- $platform := include "plexus.platform" $root | fromYaml -}}
{{- include "plexus.moveVolume" (list $pod "cni-conf" $config.cniConfDir) -}}
{{- include "plexus.moveVolume" (list $pod "cni-bin" (include "plexus.shimDir" $config)) -}}
{{- if eq (get $platform "hostConfig" | toString) "false" -}}
{{- include "plexus.dropVolume" (list $pod "host-config") -}}
{{- end -}}
{{- range concat $pod.initContainers $pod.containers -}}
{{- if and $platform.capabilities .volumeMounts -}}
{{- $_ := set .securityContext.capabilities "add" $platform.capabilities -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Another directory of the host, under the same name in the containers. Takes (list POD VOLUME DIRECTORY). */}}
{{- define "plexus.moveVolume" -}}
{{- $name := index . 1 -}}
{{- $dir := index . 2 -}}
{{- range (index . 0).volumes -}}
{{- if eq .name $name -}}
{{- $_ := set .hostPath "path" $dir -}}
{{- end -}}
{{- end -}}
{{- range concat (index . 0).initContainers (index . 0).containers -}}
{{- range .volumeMounts -}}
{{- if eq .name $name -}}
{{- $_ := set . "mountPath" $dir -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Without a volume and its mounts. Takes (list POD VOLUME). */}}
{{- define "plexus.dropVolume" -}}
{{- $pod := index . 0 -}}
{{- $name := index . 1 -}}
{{- $volumes := list -}}
{{- range $pod.volumes -}}
{{- if ne .name $name -}}
{{- $volumes = append $volumes . -}}
{{- end -}}
{{- end -}}
{{- $_ := set $pod "volumes" $volumes -}}
{{- range concat $pod.initContainers $pod.containers -}}
{{- if .volumeMounts -}}
{{- $mounts := list -}}
{{- range .volumeMounts -}}
{{- if ne .name $name -}}
{{- $mounts = append $mounts . -}}
{{- end -}}
{{- end -}}
{{- $_ := set . "volumeMounts" $mounts -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A directory of the host for one container. Takes (list POD CONTAINER VOLUME MOUNT), the mount without its name. */}}
{{- define "plexus.addVolume" -}}
{{- $pod := index . 0 -}}
{{- $container := index . 1 -}}
{{- $name := index . 2 -}}
{{- $mount := set (index . 3) "name" $name -}}
{{- $hostPath := dict "path" $mount.mountPath "type" "DirectoryOrCreate" -}}
{{- $_ := set $pod "volumes" (append $pod.volumes (dict "name" $name "hostPath" $hostPath)) -}}
{{- $_ := set $container "volumeMounts" (append $container.volumeMounts $mount) -}}
{{- end -}}

{{/* Mounts directories, unless the container sees them already. Takes (list POD CONTAINER DIRECTORIES READ-ONLY). */}}
{{- define "plexus.showDirectories" -}}
{{- $pod := index . 0 -}}
{{- $container := index . 1 -}}
{{- $readOnly := index . 3 -}}
{{- range $i, $dir := index . 2 | uniq | sortAlpha -}}
{{- $isSeen := false -}}
{{- range $container.volumeMounts -}}
{{- if hasPrefix (printf "%s/" .mountPath) (printf "%s/" $dir) -}}
{{- $isSeen = true -}}
{{- end -}}
{{- end -}}
{{- if not $isSeen -}}
{{- $mount := dict "mountPath" $dir -}}
{{- if $readOnly -}}
{{- $_ := set $mount "readOnly" true -}}
{{- end -}}
{{- include "plexus.addVolume" (list $pod $container (printf "configured-%d" $i) $mount) -}}
{{- end -}}
{{- end -}}
{{- end -}}
