/* SPDX-License-Identifier: Apache-2.0
 * A CNI plugin that attaches nothing: what remains is the cost of calling it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(void)
{
	const char *command = getenv("CNI_COMMAND"), *ifname = getenv("CNI_IFNAME"), *netns = getenv("CNI_NETNS");
	static char conf[65536];

	while (read(0, conf, sizeof conf) > 0)
		;
	if (command && !strcmp(command, "ADD"))
		printf("{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"%s\",\"sandbox\":\"%s\"}],"
		       "\"ips\":[{\"address\":\"10.0.0.2/24\",\"interface\":0}]}",
		       ifname ? ifname : "", netns ? netns : "");
	return 0;
}
